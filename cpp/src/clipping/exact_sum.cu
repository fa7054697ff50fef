// Computes clipped sums in the exact form (clipped_sum.hpp) on a device: squares and clipping factors of rows, integer
// sums, and noise. Compile without contraction of a * b + c to fused multiply-adds, to get the bits of the CPU.
#include "clipped_sum.cuda.hpp"
#include "clipping/device/device_request.hpp"
#include "clipping/device/device_table.cuh"
#include "clipping/device/exact_clip_kernels.cuh"

namespace tightdp::cuda {
namespace {

unsigned exact_sum_launch_blocks(std::int64_t blocks) {
    return static_cast<unsigned>(blocks);
}

// Adds the noise to the integer sums, and writes the outputs.
void finish_exact_sum(const DeviceClip& clip, const ExactFinish& f, cudaStream_t stream) {
    exact_finish_kernel<<<exact_sum_launch_blocks(ceiling_quotient(clip.columns, kSumThreads)), kSumThreads, 0,
                          stream>>>(clip, f);
    check_cuda(cudaGetLastError(), "the launch of the noise");
}

template <class T>
void run_exact_sum(const ClipRequest& r, cudaStream_t stream) {
    std::vector<DeviceSegment> entries;
    DeviceClip clip = make_device_clip(r, entries, kSquareLanes);
    const DeviceExact exact = make_device_exact_clip(r, clip);
    const SegmentTable table(entries, stream);
    clip.segments = table.device_table_entries();

    const std::int64_t busy = 8 * cuda_attribute(cudaDevAttrMultiProcessorCount);  // blocks that occupy the device
    const Scratch squares(static_cast<std::size_t>(clip.rows * exact.tiles) * 8, stream);
    const Scratch factors(static_cast<std::size_t>(clip.rows) * 8, stream);
    const Scratch sums(static_cast<std::size_t>(clip.columns) * 8, stream);
    check_cuda(cudaMemsetAsync(sums.as<void>(), 0, static_cast<std::size_t>(clip.columns) * 8, stream), "sums");
    if (clip.rows > 0) {
        const std::int64_t squaring =
            std::min(busy, ceiling_quotient(clip.rows * exact.tiles, kSumThreads / kSquareLanes));
        exact_squares_kernel<T>
            <<<exact_sum_launch_blocks(squaring), kSumThreads, 0, stream>>>(clip, exact.tiles, squares.as<double>());
        exact_factors_kernel<T><<<exact_sum_launch_blocks(ceiling_quotient(clip.rows, 32)), 32, 0, stream>>>(
            clip, exact, squares.as<double>(), factors.as<double>());
        const RowShare share(clip.columns, clip.rows, busy);
        exact_sums_kernel<T><<<exact_sum_launch_blocks(share.count_launch_blocks(clip.rows)), kSumThreads, 0, stream>>>(
            clip, share, factors.as<double>(), sums.as<unsigned long long>());
        check_cuda(cudaGetLastError(), "the launch of the exact sum");
    }
    finish_exact_sum(clip, make_exact_device_finish(r, sums.as<unsigned long long>()), stream);
}

}  // namespace

void exact_sum(const ClipRequest& request, cudaStream_t stream) {
    call_for_clip_tile_dtype(request.dtype, [&]<class T> { run_exact_sum<T>(request, stream); });
}

void release_sums(const ClipRequest& request, const std::int64_t* sums, cudaStream_t stream) {
    std::vector<DeviceSegment> entries;
    DeviceClip clip = make_device_clip(request, entries, kSquareLanes);
    const SegmentTable table(entries, stream);
    clip.segments = table.device_table_entries();
    finish_exact_sum(clip, make_exact_device_finish(request, reinterpret_cast<const unsigned long long*>(sums)), stream);
}

}  // namespace tightdp::cuda
