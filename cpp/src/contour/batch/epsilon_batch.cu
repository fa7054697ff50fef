// Computes bounds on epsilon for many settings on a device. Each warp computes one setting at a time, with the formulas
// of batch_setting.hpp.
#include <algorithm>

#include "epsilon_batch.cuda.hpp"
#include "runtime/cuda_scratch.hpp"
#include "runtime/warp_team.cuh"
#include "batch_setting.hpp"

namespace tightdp::cuda {
namespace {

using contour::BatchMemory;

// Number of warps in a block, and of blocks on a multiprocessor. Many warps hide the latency of chains of dependent
// operations, but the scratch memory of all warps should fit into the second-level cache. With 16 warps on a
// multiprocessor a thread has 128 registers, about as many as the longest function needs.
constexpr int kWarps = 2;
constexpr int kBlocksPerProcessor = 8;

struct Batch {
    std::int64_t n;
    const double *sigma, *q, *steps, *delta;
    double tolerance;
    double *lower, *upper;
    unsigned char* status;
};

__global__ void __launch_bounds__(32 * kWarps, kBlocksPerProcessor)
    epsilon_kernel(Batch batch, BatchMemory* memories, unsigned long long* taken) {
    const WarpTeam team;
    BatchMemory& memory = memories[blockIdx.x * kWarps + threadIdx.x / 32];
    for (;;) {
        unsigned long long next = 0;
        if (team.lane() == 0) next = atomicAdd(taken, 1ull);
        const std::int64_t i = static_cast<std::int64_t>(__shfl_sync(WarpTeam::kAll, next, 0));
        if (i >= batch.n) return;
        const contour::Result r = contour::batch_epsilon(team, memory, batch.sigma[i], batch.q[i], batch.steps[i],
                                                         batch.delta[i], batch.tolerance);
        const bool certified = r.status == contour::Status::certified;
        team.sync();
        if (team.lane() == 0) {
            batch.lower[i] = certified ? r.lower : 0;
            batch.upper[i] = certified ? r.upper : HUGE_VAL;
            batch.status[i] = certified;
        }
    }
}

}  // namespace

void epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps, const double* delta,
                   double tolerance, double* lower, double* upper, unsigned char* status, cudaStream_t stream) {
    if (n == 0) return;
    int resident = 0;
    check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, epsilon_kernel, 32 * kWarps, 0), "occupancy");
    const std::int64_t blocks = std::min<std::int64_t>(
        cuda_attribute(cudaDevAttrMultiProcessorCount) * std::clamp(resident, 1, kBlocksPerProcessor),
        (n + kWarps - 1) / kWarps);
    const Scratch memories(static_cast<std::size_t>(blocks) * kWarps * sizeof(BatchMemory), stream);
    const Scratch taken(sizeof(unsigned long long), stream);
    check_cuda(cudaMemsetAsync(taken.as<void>(), 0, sizeof(unsigned long long), stream), "a counter");
    epsilon_kernel<<<static_cast<unsigned>(blocks), 32 * kWarps, 0, stream>>>(
        {n, sigma, q, steps, delta, tolerance, lower, upper, status}, memories.as<BatchMemory>(),
        taken.as<unsigned long long>());
    check_cuda(cudaGetLastError(), "the launch of the batched contour engine");
}

}  // namespace tightdp::cuda
