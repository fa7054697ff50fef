// Computes clipped sums on a device in one of three ways. If rows are short, a thread block holds some rows in shared
// memory between the computation of their norms and of their sums. If rows are longer, a team of blocks holds them, and
// each block holds its own columns. Both ways read a row from memory once (device/one_read.cuh). The third way is for
// rows that are too long for the shared memory of all multiprocessors, or for too few data. It reads groups of rows
// twice. A group fits in half the second-level cache if possible, so that its second reading is from there. The
// formulas are in device/clip.hpp, and the choice of the way is in device/shape.hpp.
#include <algorithm>
#include <vector>

#include "clipped_sum.cuda.hpp"
#include "clipping/device/one_read.cuh"
#include "clipping/device/partial_sums.cuh"
#include "clipping/device/request.hpp"
#include "clipping/device/segment_table.cuh"
#include "runtime/cuda_scratch.hpp"

namespace tightdp::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlockWarps = kThreads / 32;
constexpr int kAddThreads = 1024;

Machine machine_here(std::int64_t& cache) {
    cache = attribute(cudaDevAttrL2CacheSize);
    const std::int64_t alone = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    // Subtracts the kilobyte that is reserved for each block, and a little for the runtime.
    const std::int64_t half = std::min(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 - 2048, alone);
    const bool grid = attribute(cudaDevAttrCooperativeLaunch) != 0;
    return {attribute(cudaDevAttrMultiProcessorCount), half, alone - 1024, grid};
}

// Computes squares[row - begin][piece], the sums of squares of the pieces of the rows [begin, begin + count). Each
// piece is computed by one warp.
template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(DeviceClip clip, std::int64_t begin, std::int64_t count, std::int64_t pieces, double* squares) {
    const WarpTeam team;
    const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kBlockWarps;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32; i < count * pieces;
         i += warps) {
        const double square = piece_squares<T>(clip, team, begin + i / pieces, i % pieces * kDevicePiece);
        if (team.lane() == 0) squares[i] = square;
    }
}

template <class T>
__global__ void factors_kernel(DeviceClip clip, std::int64_t begin, std::int64_t count, std::int64_t pieces,
                               const double* squares, double* factors) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    double square = 0;
    for (std::int64_t p = 0; p < pieces; ++p) square += squares[i * pieces + p];
    factors[i] = row_factor<T>(clip, begin + i, square);
}

// Adds the clipped rows of the group to sums[column]. Each column is added by one thread.
template <class T>
__global__ void __launch_bounds__(kThreads) sums_kernel(DeviceClip clip, std::int64_t begin, std::int64_t count,
                                                        const double* factors, double* sums, bool fresh) {
    const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (c >= clip.columns) return;
    const DeviceSegment& segment = segment_of(clip, c);
    double sum = fresh ? 0 : sums[c];
#pragma unroll 4
    for (std::int64_t r = 0; r < count; ++r) {
        const double x = wide(row_of<T>(segment, begin + r)[c - segment.first]);
        if (factors[r] > 0) sum += product(clip, transformed(clip, x, c), factors[r]);
    }
    sums[c] = sum;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) finish_kernel(DeviceClip clip, DeviceFinish finish) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    const std::int64_t tile = i / random::kLanes;
    if (tile * random::kTileValues < finish.columns)
        finish_lane<Real>(clip, finish, tile, static_cast<int>(i % random::kLanes));
}

class Launch {
  public:
    Launch(const ClipRequest& r, cudaStream_t stream) : r_(r), stream_(stream), machine_(machine_here(cache_)) {
        clip_ = device_clip(r, table_, kWarp);
    }

    template <class T>
    void run() {
        const SegmentTable table(table_, stream_);
        const bool dense =
            table_.size() == 1 && table_[0].stride == clip_.columns * static_cast<std::int64_t>(sizeof(T));
        clip_.segments = table.at();
        const Shape shape = choose_shape(clip_, dense, sizeof(T), machine_, [](const HeldShape& s) {
            int resident = 0;
            allow(held_kernel<T>, s.bytes());
            check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, held_kernel<T>, HeldShape::kThreads,
                                                                static_cast<std::size_t>(s.bytes())),
                  "occupancy");
            return resident;
        });
        if (shape.way == Way::held) return held_rows<T>(shape.held);
        if (shape.way == Way::sliced && sliced_rows<T>(shape.sliced)) return;
        grouped_rows<T>();
    }

  private:
    template <class Kernel>
    static void allow(Kernel kernel, std::int64_t bytes) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
              "shared memory");
    }

    template <class T>
    void held_rows(const HeldShape& s) {
        const Scratch partial(static_cast<std::size_t>(s.blocks * clip_.columns) * 8, stream_);
        held_kernel<T>
            <<<static_cast<unsigned>(s.blocks), HeldShape::kThreads, static_cast<std::size_t>(s.bytes()), stream_>>>(
                clip_, s, partial.as<double>());
        check(cudaGetLastError(), "the launch of the clipped sum");
        finish_partial(partial, s.blocks);
    }

    // Returns false, with nothing queued, if the device cannot hold all blocks at once. This may happen if the device
    // is shared with others.
    template <class T>
    bool sliced_rows(const SliceShape& s) {
        allow(sliced_kernel<T>, s.bytes());
        const Scratch exchange(static_cast<std::size_t>(s.exchange()) * 8, stream_);
        const Scratch arrived(static_cast<std::size_t>(s.counters()) * 8, stream_);
        const Scratch partial(static_cast<std::size_t>(s.teams * clip_.columns) * 8, stream_);
        check(cudaMemsetAsync(arrived.as<void>(), 0, static_cast<std::size_t>(s.counters()) * 8, stream_), "counters");
        double *squares = exchange.as<double>(), *sums = partial.as<double>();
        auto* counters = arrived.as<unsigned long long>();
        SliceShape shape = s;
        void* arguments[] = {&clip_, &shape, &squares, &counters, &sums};
        const cudaError_t status = cudaLaunchCooperativeKernel(
            reinterpret_cast<const void*>(sliced_kernel<T>), dim3(static_cast<unsigned>(s.teams * s.blocks)),
            dim3(static_cast<unsigned>(s.threads)), arguments, static_cast<std::size_t>(s.bytes()), stream_);
        if (status == cudaErrorCooperativeLaunchTooLarge) {
            cudaGetLastError();
            return false;
        }
        check(status, "the launch of the clipped sum");
        finish_partial(partial, s.teams);
        return true;
    }

    void finish_partial(const Scratch& partial, std::int64_t parts) {
        const Scratch sums(static_cast<std::size_t>(clip_.columns) * 8, stream_);
        const auto blocks = static_cast<unsigned>(ceiling(clip_.columns, kWarp));
        add_partial_kernel<<<blocks, kAddThreads, 8 * kAddThreads, stream_>>>(partial.as<double>(), parts,
                                                                              clip_.columns, sums.as<double>());
        check(cudaGetLastError(), "the launch of the partial sums");
        finish(sums.as<double>());
    }

    template <class T>
    void grouped_rows() {
        const std::int64_t pieces = ceiling(clip_.columns, kDevicePiece);
        const std::int64_t fitting =
            cache_ / 2 / std::max<std::int64_t>(1, clip_.columns * static_cast<std::int64_t>(sizeof(T)));
        // Rows that are too long for the cache are read twice from memory. With groups of 64 rows, reading and writing
        // the sums takes little time.
        const std::int64_t group = std::max<std::int64_t>(fitting, 64);
        const Scratch squares(static_cast<std::size_t>(group * pieces) * 8, stream_);
        const Scratch factors(static_cast<std::size_t>(group) * 8, stream_);
        const Scratch sums(static_cast<std::size_t>(clip_.columns) * 8, stream_);
        for (std::int64_t begin = 0; begin < clip_.rows; begin += group) {
            const std::int64_t count = std::min(group, clip_.rows - begin);
            const std::int64_t warps =
                std::min<std::int64_t>(ceiling(count * pieces, kBlockWarps), 16 * machine_.processors);
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
        const DeviceFinish f = device_finish(r_, clip_, sums);
        const std::int64_t threads = ceiling(clip_.columns, random::kTileValues) * random::kLanes;
        const auto blocks = static_cast<unsigned>(ceiling(threads, kThreads));
        if (r_.out_double)
            finish_kernel<double><<<blocks, kThreads, 0, stream_>>>(clip_, f);
        else
            finish_kernel<float><<<blocks, kThreads, 0, stream_>>>(clip_, f);
        check(cudaGetLastError(), "the launch of the noise");
    }

    const ClipRequest& r_;
    cudaStream_t stream_;
    std::int64_t cache_ = 0;
    const Machine machine_;
    std::vector<DeviceSegment> table_;
    DeviceClip clip_{};
};

}  // namespace

void clipped_sum(const ClipRequest& request, cudaStream_t stream) {
    if (request.stream) {
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        check(cudaStreamIsCapturing(stream, &capture), "the state of the stream");
        if (capture != cudaStreamCaptureStatusNone)
            throw Error("noise in a captured graph would be the same at every replay: capture clipped_sum alone");
    }
    if (request.grid > 0) return exact_sum(request, stream);
    Launch launch(request, stream);
    with_dtype(request.dtype, [&]<class T> { launch.run<T>(); });
}

}  // namespace tightdp::cuda
