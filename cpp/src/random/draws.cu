#include "draws.cuda.hpp"
#include "runtime/cuda_check.hpp"

namespace tightdp::cuda {
namespace {

using namespace random;

// A thread a lane: its 16 words, a row apart.
__global__ void words_kernel(RandomStream s, std::uint64_t tile, long tiles, std::uint32_t* out) {
    const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= tiles * kLanes) return;
    const long t = i / kLanes;
    const int lane = static_cast<int>(i % kLanes);
    for (int k = 0; k < 4; ++k) {
        std::uint32_t words[4];
        lane_words(s, tile + static_cast<std::uint64_t>(t), lane, k, words);
        for (int w = 0; w < 4; ++w) out[t * kTileWords + (4 * k + w) * kLanes + lane] = words[w];
    }
}

}  // namespace

void fill_words(const RandomStream& s, std::uint64_t tile, long tiles, std::uint32_t* out, cudaStream_t stream) {
    if (tiles == 0) return;
    words_kernel<<<static_cast<unsigned>((tiles * kLanes + 127) / 128), 128, 0, stream>>>(s, tile, tiles, out);
    check(cudaGetLastError(), "the launch of the random words");
}

}  // namespace tightdp::cuda
