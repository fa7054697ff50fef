#include "clip_emulation.hpp"

#include "clipping/device/device_request.hpp"
#include "runtime/team.hpp"

namespace tightdp {
namespace {

using namespace clipping;

template <class T>
void emulate(const ClipRequest& r) {
    std::vector<DeviceSegment> table;
    const DeviceClip clip = device_clip(r, table, 1);
    std::vector<double> sums(static_cast<std::size_t>(clip.columns));
    for (std::int64_t row = 0; row < clip.rows; ++row) {
        double square = 0;
        for (std::int64_t c = 0; c < clip.columns; c += kDevicePiece)
            square += piece_squares<T>(clip, contour::SoloTeam{}, row, c);
        const double factor = row_factor<T>(clip, row, square);
        if (!(factor > 0)) continue;
        for (std::int64_t c = 0; c < clip.columns; ++c) {
            const DeviceSegment& segment = segment_of(clip, c);
            const double x = transformed(clip, wide(row_of<T>(segment, row)[c - segment.first]), c);
            sums[static_cast<std::size_t>(c)] += product(clip, x, factor);
        }
    }
    const DeviceFinish f = device_finish(r, clip, sums.data());
    for (std::int64_t tile = 0; tile * random::kTileValues < clip.columns; ++tile)
        for (int lane = 0; lane < random::kLanes; ++lane)
            r.out_double ? finish_lane<double>(clip, f, tile, lane) : finish_lane<float>(clip, f, tile, lane);
}

}  // namespace

void emulate_clipped_sum(const ClipRequest& request) {
    with_dtype(request.dtype, [&]<class T> { emulate<T>(request); });
}

}  // namespace tightdp
