// A request as the threads of a device read it.
#pragma once

#include <vector>

#include "clipped_sum.hpp"
#include "tightdp/clipping/device.hpp"

namespace tightdp {

// table: filled; the result points to it. lanes: of the teams that take the norms.
inline clipping::DeviceClip device_clip(const ClipRequest& r, std::vector<clipping::DeviceSegment>& table, int lanes) {
    clipping::DeviceClip clip{};
    for (const ClipSegment& s : r.segments) {
        const long columns = static_cast<long>(s.columns);
        table.push_back({s.data, static_cast<long>(s.stride), clip.columns, columns, s.out});
        clip.columns += columns;
    }
    clip.segments = table.data();
    clip.segment_count = static_cast<int>(table.size());
    clip.rows = static_cast<long>(r.rows);
    clip.max_norm = r.max_norm;
    clip.stability = r.stability;
    clip.rule = r.rule;
    clip.rounding = r.dtype != Dtype::float64 && !r.center
                        ? clipping::single_rounding()
                        : clipping::double_rounding(clipping::device_chain(clip.columns, lanes));
    clip.weights = r.weights;
    clip.center = r.center;
    clip.inverse_scale = r.inverse_scale;
    clip.norms = r.norms;
    return clip;
}

}  // namespace tightdp
