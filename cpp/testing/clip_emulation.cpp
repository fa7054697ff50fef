#include "clip_emulation.hpp"

#include "clipping/device/device_request.hpp"
#include "runtime/team.hpp"

namespace tightdp {
namespace {

using namespace clipping;

template <class T>
void emulate_device_clip(const ClipRequest& r) {
    std::vector<DeviceSegment> table;
    const DeviceClip clip = make_device_clip(r, table, 1);
    std::vector<double> sums(static_cast<std::size_t>(clip.columns));
    for (std::int64_t row = 0; row < clip.rows; ++row) {
        double square = 0;
        for (std::int64_t c = 0; c < clip.columns; c += kDevicePiece)
            square += sum_device_clip_piece_squares<T>(clip, contour::SoloTeam{}, row, c);
        const double factor = device_clip_factor<T>(clip, row, square);
        if (!(factor > 0)) continue;
        for (std::int64_t c = 0; c < clip.columns; ++c) {
            const DeviceSegment& segment = find_device_clip_segment(clip, c);
            const double x = transform_clip_entry(
                clip, widen_device_clip_entry(find_device_clip_row<T>(segment, row)[c - segment.first]), c);
            sums[static_cast<std::size_t>(c)] += device_clip_product(clip, x, factor);
        }
    }
    const DeviceFinish f = make_device_finish(r, clip, sums.data());
    for (std::int64_t tile = 0; tile * random::kTileValues < clip.columns; ++tile)
        for (int lane = 0; lane < random::kLanes; ++lane)
            r.out_double ? finish_clip_lane<double>(clip, f, tile, lane) : finish_clip_lane<float>(clip, f, tile, lane);
}

}  // namespace

void emulate_clipped_sum(const ClipRequest& request) {
    call_for_clip_tile_dtype(request.dtype, [&]<class T> { emulate_device_clip<T>(request); });
}

}  // namespace tightdp
