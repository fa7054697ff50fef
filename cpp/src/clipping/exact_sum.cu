// Computes the exact form on a device: squares, factors and integer sums of one group of rows after the other, and then
// the noise. A group fits in half the second-level cache if possible, so that its second reading is from there. Compile
// without contraction of a * b + c to fused multiply-adds.
#include "clipped_sum.cuda.hpp"
#include "clipping/device/exact_kernels.cuh"
#include "clipping/device/request.hpp"
#include "clipping/device/segment_table.cuh"

namespace tightdp::cuda {
namespace {

unsigned launched(std::int64_t blocks) {
    return static_cast<unsigned>(blocks);
}

template <class T>
void run(const ClipRequest& r, cudaStream_t stream) {
    std::vector<DeviceSegment> entries;
    DeviceClip clip = device_clip(r, entries, kSquareLanes);
    const DeviceExact exact = device_exact(r, clip);
    const SegmentTable table(entries, stream);
    clip.segments = table.at();

    const std::int64_t busy = 8 * attribute(cudaDevAttrMultiProcessorCount);  // blocks that occupy the device
    const std::int64_t fitting = attribute(cudaDevAttrL2CacheSize) / 2 /
                                 std::max<std::int64_t>(1, clip.columns * static_cast<std::int64_t>(sizeof(T)));
    const std::int64_t group = std::min(clip.rows, std::max<std::int64_t>(fitting, 64));
    const Scratch squares(static_cast<std::size_t>(group * exact.tiles) * 8, stream);
    const Scratch factors(static_cast<std::size_t>(group) * 8, stream);
    const Scratch sums(static_cast<std::size_t>(clip.columns) * 8, stream);
    check(cudaMemsetAsync(sums.as<void>(), 0, static_cast<std::size_t>(clip.columns) * 8, stream), "sums");
    for (std::int64_t begin = 0; begin < clip.rows; begin += group) {
        const std::int64_t count = std::min(group, clip.rows - begin);
        const std::int64_t squaring = std::min(busy, ceiling(count * exact.tiles, kExactThreads / kSquareLanes));
        exact_squares_kernel<T>
            <<<launched(squaring), kExactThreads, 0, stream>>>(clip, exact.tiles, begin, count, squares.as<double>());
        exact_factors_kernel<T><<<launched(ceiling(count, 128)), 128, 0, stream>>>(
            clip, exact, begin, count, squares.as<double>(), factors.as<double>());
        const ExactShare share(clip.columns, count, busy);
        exact_sums_kernel<T><<<launched(share.blocks(count)), kExactThreads, 0, stream>>>(
            clip, share, begin, count, factors.as<double>(), sums.as<unsigned long long>());
        check(cudaGetLastError(), "the launch of the exact sum");
    }
    exact_finish_kernel<<<launched(ceiling(clip.columns, kExactThreads)), kExactThreads, 0, stream>>>(
        clip, exact_finish(r, sums.as<unsigned long long>()));
    check(cudaGetLastError(), "the launch of the noise");
}

}  // namespace

void exact_sum(const ClipRequest& request, cudaStream_t stream) {
    with_dtype(request.dtype, [&]<class T> { run<T>(request, stream); });
}

}  // namespace tightdp::cuda
