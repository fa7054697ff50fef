// Computes clipped sums on a device in one of two ways. If rows are short, a thread block holds some of them in shared
// memory from the computation of their norms until they are added (device/held_rows.cuh). Other rows are read from
// memory twice (device/rows_read_twice.cuh). The formulas are in device/clip_formulas.hpp, and the choice of the way is
// in device/launch_shape.hpp.
#include <algorithm>
#include <vector>

#include "clipped_sum.cuda.hpp"
#include "clipping/device/device_request.hpp"
#include "clipping/device/device_table.cuh"
#include "clipping/device/held_rows.cuh"
#include "clipping/device/partial_sums.cuh"
#include "clipping/device/rows_read_twice.cuh"
#include "runtime/cuda_scratch.hpp"

namespace tightdp::cuda {
namespace {

constexpr int kAddThreads = 1024;

Machine measure_clip_device() {
    const std::int64_t alone = cuda_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    // Two blocks share a multiprocessor's memory. Each of them loses 2048 bytes: the kilobyte that is reserved for a
    // block, and some space for the runtime.
    const std::int64_t half = std::min(cuda_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 - 2048, alone);
    return {cuda_attribute(cudaDevAttrMultiProcessorCount), half};
}

template <class Real>
__global__ void __launch_bounds__(kSumThreads) finish_kernel(DeviceClip clip, DeviceFinish finish) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
    const std::int64_t tile = i / random::kLanes;
    if (tile * random::kTileValues < finish.columns)
        finish_clip_lane<Real>(clip, finish, tile, static_cast<int>(i % random::kLanes));
}

class Launch {
  public:
    Launch(const ClipRequest& r, cudaStream_t stream) : r_(r), stream_(stream), machine_(measure_clip_device()) {
        clip_ = make_device_clip(r, table_, kWarp);
    }

    template <class T>
    void launch_clipped_sum() {
        const SegmentTable table(table_, stream_);
        const bool dense =
            table_.size() == 1 && table_[0].stride == clip_.columns * static_cast<std::int64_t>(sizeof(T));
        clip_.segments = table.device_table_entries();
        const HeldShape held = choose_held_shape(clip_, dense, sizeof(T), machine_, [](const HeldShape& s) {
            int resident = 0;
            set_clipped_sum_memory_limit(held_kernel<T>, s.held_bytes());
            check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, held_kernel<T>, HeldShape::kThreads,
                                                                     static_cast<std::size_t>(s.held_bytes())),
                       "occupancy");
            return resident;
        });
        if (clip_.rows == 0) return finish_clipped_sum(nullptr);
        if (held.blocks > 0) return launch_clipped_sum_holding_rows<T>(held);
        launch_clipped_sum_reading_twice<T>();
    }

  private:
    template <class Kernel>
    static void set_clipped_sum_memory_limit(Kernel kernel, std::int64_t bytes) {
        check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                   "shared memory");
    }

    template <class T>
    void launch_clipped_sum_holding_rows(const HeldShape& s) {
        const Scratch partial(static_cast<std::size_t>(s.blocks * clip_.columns) * 8, stream_);
        held_kernel<T><<<static_cast<unsigned>(s.blocks), HeldShape::kThreads, static_cast<std::size_t>(s.held_bytes()),
                         stream_>>>(clip_, s, partial.as<double>());
        check_cuda(cudaGetLastError(), "the launch of the clipped sum");
        finish_clipped_sum_parts(partial, s.blocks);
    }

    template <class T>
    void launch_clipped_sum_reading_twice() {
        const std::int64_t pieces = ceiling_quotient(clip_.columns, kDevicePiece), warps = kSumThreads / kWarp;
        const Scratch squares(static_cast<std::size_t>(clip_.rows * pieces) * 8, stream_);
        const Scratch factors(static_cast<std::size_t>(clip_.rows) * 8, stream_);
        const std::int64_t squaring =
            std::min(machine_.busy_device_blocks(), ceiling_quotient(clip_.rows * pieces, warps));
        squares_kernel<T>
            <<<static_cast<unsigned>(squaring), kSumThreads, 0, stream_>>>(clip_, pieces, squares.as<double>());
        factors_kernel<T><<<static_cast<unsigned>(ceiling_quotient(clip_.rows, warps)), kSumThreads, 0, stream_>>>(
            clip_, pieces, squares.as<double>(), factors.as<double>());
        const RowShare share(clip_.columns, clip_.rows, machine_.busy_device_blocks());
        const std::int64_t chunks = share.count_clip_launch_chunks(clip_.rows);
        const Scratch partial(static_cast<std::size_t>(chunks * clip_.columns) * 8, stream_);
        sums_kernel<T><<<static_cast<unsigned>(share.count_launch_blocks(clip_.rows)), kSumThreads, 0, stream_>>>(
            clip_, share, factors.as<double>(), partial.as<double>());
        check_cuda(cudaGetLastError(), "the launch of the clipped sum");
        finish_clipped_sum_parts(partial, chunks);
    }

    void finish_clipped_sum_parts(const Scratch& partial, std::int64_t parts) {
        if (parts == 1) return finish_clipped_sum(partial.as<double>());
        const Scratch sums(static_cast<std::size_t>(clip_.columns) * 8, stream_);
        const auto blocks = static_cast<unsigned>(ceiling_quotient(clip_.columns, kWarp));
        add_partial_kernel<<<blocks, kAddThreads, 8 * kAddThreads, stream_>>>(partial.as<double>(), parts,
                                                                              clip_.columns, sums.as<double>());
        check_cuda(cudaGetLastError(), "the launch of the partial sums");
        finish_clipped_sum(sums.as<double>());
    }

    void finish_clipped_sum(const double* sums) {
        const DeviceFinish f = make_device_finish(r_, clip_, sums);
        const std::int64_t threads = ceiling_quotient(clip_.columns, random::kTileValues) * random::kLanes;
        const auto blocks = static_cast<unsigned>(ceiling_quotient(threads, kSumThreads));
        if (r_.out_double)
            finish_kernel<double><<<blocks, kSumThreads, 0, stream_>>>(clip_, f);
        else
            finish_kernel<float><<<blocks, kSumThreads, 0, stream_>>>(clip_, f);
        check_cuda(cudaGetLastError(), "the launch of the noise");
    }

    const ClipRequest& r_;
    cudaStream_t stream_;
    const Machine machine_;
    std::vector<DeviceSegment> table_;
    DeviceClip clip_{};
};

}  // namespace

void clipped_sum(const ClipRequest& request, cudaStream_t stream) {
    if (request.stream) {
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        check_cuda(cudaStreamIsCapturing(stream, &capture), "the state of the stream");
        if (capture != cudaStreamCaptureStatusNone)
            throw Error("noise in a captured graph would be the same at every replay: capture clipped_sum alone");
    }
    if (request.grid > 0) return exact_sum(request, stream);
    Launch launch(request, stream);
    call_for_clip_tile_dtype(request.dtype, [&]<class T> { launch.launch_clipped_sum<T>(); });
}

}  // namespace tightdp::cuda
