// Two ways to the sums. Rows that fit a multiprocessor's shared memory are read from memory once: a block holds a few
// rows between their norms and their sums. Longer rows go through in groups that fit half the second-level cache: the
// second reading is from there. Formulas: tightdp/clipping/device.hpp.
#include "clipped_sum.hpp"

#include <algorithm>
#include <vector>

#include "../cpu/device_clip.hpp"
#include "scratch.hpp"
#include "warp_team.cuh"

namespace tightdp::cuda {
namespace {

using namespace clipping;

constexpr int kThreads = 256;
constexpr int kBlockWarps = kThreads / 32;
// Rows a block holds at a time at most: each warp takes the norms of four.
constexpr int kHeldRows = 4 * kBlockWarps;

// Bytes of shared memory a block may take so that two are resident and the copies of one hide the sums of the other.
struct Device {
    int processors = 0, shared = 0, cache = 0;
    Device() {
        int device = 0;
        check(cudaGetDevice(&device), "the current device");
        check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "the device's size");
        check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device), "shared memory");
        check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device), "the device's cache");
        int optin = 0;
        check(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory");
        shared = std::min(shared / 2 - 2048, optin);
    }
};

// Shared memory: sums (columns doubles), factors (kHeldRows doubles), held rows, each padded to 16 bytes.
__host__ __device__ inline long held_pitch(long columns, long size) { return (columns * size + 15) / 16 * 16; }

// One read. Block b takes groups of `held` rows b, b + blocks, ..; partial[b] receives its sums.
template <class T>
__global__ void __launch_bounds__(kThreads) held_rows_kernel(DeviceClip clip, int held, double* partial) {
    extern __shared__ __align__(16) unsigned char memory[];
    double* const sums = reinterpret_cast<double*>(memory);
    double* const factors = sums + clip.columns;
    unsigned char* const rows = reinterpret_cast<unsigned char*>(factors + kHeldRows) + (clip.columns % 2 ? 8 : 0);
    const long pitch = held_pitch(clip.columns, sizeof(T));
    const WarpTeam team;
    const int warp = threadIdx.x / 32;
    for (long c = threadIdx.x; c < clip.columns; c += kThreads) sums[c] = 0;
    for (long begin = static_cast<long>(blockIdx.x) * held; begin < clip.rows;
         begin += static_cast<long>(gridDim.x) * held) {
        const int count = static_cast<int>(begin + held < clip.rows ? held : clip.rows - begin);
        __syncthreads();  // the last group's sums are taken
        for (int s = 0; s < clip.segment_count; ++s) {
            const DeviceSegment& segment = clip.segments[s];
            for (int r = warp; r < count; r += kBlockWarps) {
                const T* const from = row_of<T>(segment, begin + r);
                T* const to = reinterpret_cast<T*>(rows + r * pitch) + segment.first;
                // 16 bytes at a time where both ends allow it, several in flight.
                const bool aligned = (reinterpret_cast<unsigned long long>(from) | reinterpret_cast<unsigned long long>(to)) % 16 == 0;
                const long vectors = aligned ? segment.columns * static_cast<long>(sizeof(T)) / 16 : 0;
                const uint4* const wide_from = reinterpret_cast<const uint4*>(from);
                uint4* const wide_to = reinterpret_cast<uint4*>(to);
#pragma unroll 8
                for (long v = team.lane(); v < vectors; v += 32) wide_to[v] = __ldcs(wide_from + v);
                for (long c = vectors * 16 / static_cast<long>(sizeof(T)) + team.lane(); c < segment.columns; c += 32)
                    to[c] = from[c];
            }
        }
        // A warp copied what it reads now: its own rows.
        __syncwarp();
        for (int r = warp; r < count; r += kBlockWarps) {
            const DeviceSegment held_row{rows + r * pitch, 0, 0, clip.columns, nullptr};
            DeviceClip local = clip;
            local.segments = &held_row;
            local.segment_count = 1;
            double square = 0;
            for (long c = 0; c < clip.columns; c += kDevicePiece) square += piece_squares<T>(local, team, 0, c);
            if (team.lane() == 0) factors[r] = row_factor<T>(clip, begin + r, square);
        }
        __syncthreads();
        for (long c = threadIdx.x; c < clip.columns; c += kThreads) {
            double sum = sums[c];
            for (int r = 0; r < count; ++r)
                if (factors[r] > 0)
                    sum += product(clip, transformed(clip, wide(reinterpret_cast<const T*>(rows + r * pitch)[c]), c),
                                   factors[r]);
            sums[c] = sum;
        }
    }
    for (long c = threadIdx.x; c < clip.columns; c += kThreads) partial[blockIdx.x * clip.columns + c] = sums[c];
}

// sums[column] = the blocks' partial sums: 32 columns a block, every eighth part a warp, the warps in order.
__global__ void __launch_bounds__(kThreads)
    add_partial_kernel(const double* partial, long parts, long columns, double* sums) {
    __shared__ double by_warp[kBlockWarps][32];
    const long lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = blockIdx.x * 32L + lane;
    double sum = 0;
    if (c < columns)
        for (long i = warp; i < parts; i += kBlockWarps) sum += partial[i * columns + c];
    by_warp[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= columns) return;
    for (int w = 1; w < kBlockWarps; ++w) sum += by_warp[w][lane];
    sums[c] = sum;
}

// Rows [begin, begin + count): squares[row - begin][piece], a warp a piece.
template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(DeviceClip clip, long begin, long count, long pieces, double* squares) {
    const WarpTeam team;
    const long warps = static_cast<long>(gridDim.x) * kBlockWarps;
    for (long i = static_cast<long>(blockIdx.x) * kBlockWarps + threadIdx.x / 32; i < count * pieces; i += warps) {
        const double square = piece_squares<T>(clip, team, begin + i / pieces, i % pieces * kDevicePiece);
        if (team.lane() == 0) squares[i] = square;
    }
}

template <class T>
__global__ void factors_kernel(DeviceClip clip, long begin, long count, long pieces, const double* squares,
                               double* factors) {
    const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    double square = 0;
    for (long p = 0; p < pieces; ++p) square += squares[i * pieces + p];
    factors[i] = row_factor<T>(clip, begin + i, square);
}

// sums[column] += the group's clipped rows, a thread a column.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(DeviceClip clip, long begin, long count, const double* factors, double* sums, bool fresh) {
    const long c = static_cast<long>(blockIdx.x) * kThreads + threadIdx.x;
    if (c >= clip.columns) return;
    const DeviceSegment& segment = segment_of(clip, c);
    double sum = fresh ? 0 : sums[c];
#pragma unroll 4
    for (long r = 0; r < count; ++r) {
        const double x = wide(row_of<T>(segment, begin + r)[c - segment.first]);
        if (factors[r] > 0) sum += product(clip, transformed(clip, x, c), factors[r]);
    }
    sums[c] = sum;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) finish_kernel(DeviceClip clip, DeviceFinish finish) {
    const long i = static_cast<long>(blockIdx.x) * kThreads + threadIdx.x;
    const long tile = i / random::kLanes;
    if (tile * random::kTileValues < finish.columns)
        finish_lane<Real>(clip, finish, tile, static_cast<int>(i % random::kLanes));
}

long ceiling(long n, long d) { return (n + d - 1) / d; }

class Launch {
  public:
    Launch(const ClipRequest& r, cudaStream_t stream) : r_(r), stream_(stream) {
        clip_ = device_clip(r, table_, 32);
    }

    template <class T>
    void run() {
        const Scratch table(table_.size() * sizeof(DeviceSegment), stream_);
        // From pageable memory the copy is staged before the call returns, so the vector may go.
        check(cudaMemcpyAsync(table.as<void>(), table_.data(), table_.size() * sizeof(DeviceSegment),
                              cudaMemcpyHostToDevice, stream_), "the table of arrays");
        clip_.segments = table.as<DeviceSegment>();
        const long fixed = clip_.columns * 8 + kHeldRows * 8 + 16, pitch = held_pitch(clip_.columns, sizeof(T));
        const long held = std::min<long>((device_.shared - fixed) / pitch, kHeldRows);
        // Under two rows a block, or too few rows to fill the device, blocks would wait or leave it idle.
        const long blocks = std::min<long>(2L * device_.processors, ceiling(clip_.rows, std::max(1L, held)));
        if (held >= 2 && clip_.rows > 0 && blocks * 16 >= device_.processors && clip_.rows >= 8 * blocks)
            held_rows<T>(static_cast<int>(held), blocks, fixed + held * pitch);
        else
            grouped_rows<T>();
    }

  private:
    template <class T>
    void held_rows(int held, long blocks, long bytes) {
        check(cudaFuncSetAttribute(held_rows_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(bytes)), "shared memory");
        const Scratch partial(static_cast<std::size_t>(blocks * clip_.columns) * 8, stream_);
        held_rows_kernel<T><<<static_cast<unsigned>(blocks), kThreads, static_cast<std::size_t>(bytes), stream_>>>(
            clip_, held, partial.as<double>());
        check(cudaGetLastError(), "the launch of the clipped sum");
        const Scratch sums(static_cast<std::size_t>(clip_.columns) * 8, stream_);
        add_partial_kernel<<<static_cast<unsigned>(ceiling(clip_.columns, 32)), kThreads, 0, stream_>>>(
            partial.as<double>(), blocks, clip_.columns, sums.as<double>());
        finish(sums.as<double>());
    }

    template <class T>
    void grouped_rows() {
        const long pieces = ceiling(clip_.columns, kDevicePiece);
        const long fitting = device_.cache / 2 / std::max<long>(1, clip_.columns * static_cast<long>(sizeof(T)));
        // Rows too long for the cache are read twice; 64 at a time keep the traffic of the sums small.
        const long group = std::max<long>(fitting, 64);
        const Scratch squares(static_cast<std::size_t>(group * pieces) * 8, stream_);
        const Scratch factors(static_cast<std::size_t>(group) * 8, stream_);
        const Scratch sums(static_cast<std::size_t>(clip_.columns) * 8, stream_);
        for (long begin = 0; begin < clip_.rows; begin += group) {
            const long count = std::min(group, clip_.rows - begin);
            const long warps = std::min<long>(ceiling(count * pieces, kBlockWarps), 16L * device_.processors);
            squares_kernel<T><<<static_cast<unsigned>(warps), kThreads, 0, stream_>>>(clip_, begin, count, pieces,
                                                                                     squares.as<double>());
            factors_kernel<T><<<static_cast<unsigned>(ceiling(count, 128)), 128, 0, stream_>>>(
                clip_, begin, count, pieces, squares.as<double>(), factors.as<double>());
            sums_kernel<T><<<static_cast<unsigned>(ceiling(clip_.columns, kThreads)), kThreads, 0, stream_>>>(
                clip_, begin, count, factors.as<double>(), sums.as<double>(), begin == 0);
            check(cudaGetLastError(), "the launch of the clipped sum");
        }
        finish(clip_.rows > 0 ? sums.as<double>() : nullptr);
    }

    void finish(const double* sums) {
        DeviceFinish f{sums, clip_.columns, r_.deviation, r_.stream != nullptr, r_.accumulate, {}};
        if (r_.stream) f.stream = *r_.stream;
        const long threads = ceiling(clip_.columns, random::kTileValues) * random::kLanes;
        const auto blocks = static_cast<unsigned>(ceiling(threads, kThreads));
        if (r_.out_double) finish_kernel<double><<<blocks, kThreads, 0, stream_>>>(clip_, f);
        else finish_kernel<float><<<blocks, kThreads, 0, stream_>>>(clip_, f);
        check(cudaGetLastError(), "the launch of the noise");
    }

    const ClipRequest& r_;
    cudaStream_t stream_;
    const Device device_;
    std::vector<DeviceSegment> table_;
    DeviceClip clip_{};
};

}  // namespace

void clipped_sum(const ClipRequest& request, cudaStream_t stream) {
    Launch launch(request, stream);
    switch (request.dtype) {
        case Dtype::float16: return launch.run<Float16>();
        case Dtype::bfloat16: return launch.run<BFloat16>();
        case Dtype::float32: return launch.run<float>();
        default: return launch.run<double>();
    }
}

}  // namespace tightdp::cuda
