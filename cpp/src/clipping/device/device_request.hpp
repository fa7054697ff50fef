// Converts a request (ClipRequest) to the structs that the threads of a device read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "clipping/clip_plan.hpp"
#include "exact_clip_formulas.hpp"

namespace tightdp {

// Returns a request in the form that a device reads. The result points to `table`, to which the segments of the request
// are written. Each norm is computed by a team of `lanes` threads.
inline clipping::DeviceClip make_device_clip(const ClipRequest& r, std::vector<clipping::DeviceSegment>& table,
                                             int lanes) {
    clipping::DeviceClip clip{};
    std::int64_t tiles = 0;
    for (const ClipSegment& s : r.segments) {
        const std::int64_t columns = static_cast<std::int64_t>(s.columns);
        table.push_back(
            {s.data, static_cast<std::int64_t>(s.stride), clip.columns, columns, s.out, tiles, s.noise_index});
        clip.columns += columns;
        tiles += (columns + clipping::kSquareTile - 1) / clipping::kSquareTile;
    }
    clip.segments = table.data();
    clip.segment_count = static_cast<int>(table.size());
    clip.rows = static_cast<std::int64_t>(r.rows);
    clip.max_norm = r.max_norm;
    clip.stability = r.stability;
    clip.rule = r.rule;
    clip.rounding = r.dtype != Dtype::float64 && !r.center
                        ? clipping::single_clip_rounding()
                        : clipping::double_clip_rounding(clipping::device_clip_chain(clip.columns, lanes));
    clip.weights = r.weights;
    clip.center = r.center;
    clip.inverse_scale = r.inverse_scale;
    clip.norms = r.norms;
    return clip;
}

// Returns the inputs of the exact form of a request, in which integers are added. The squares of a row are added in the
// order of the CPU's plan, and the rounding in `clip` is set to match this order.
inline clipping::DeviceExact make_device_exact_clip(const ClipRequest& r, clipping::DeviceClip& clip) {
    static_assert(clipping::kSquareTile == kTileColumns);
    const ClipPlan plan(r);
    clipping::DeviceExact exact{r.grid,
                                kLaneLimit * r.grid / r.max_norm,
                                static_cast<std::int64_t>(plan.tiles.size()),
                                static_cast<int>(plan.clip_stripe_count()),
                                {}};
    std::copy(plan.stripes.begin(), plan.stripes.end(), exact.stripe);
    if (!clip.rounding.to_single) clip.rounding = clipping::double_clip_rounding(plan.longest_chain);
    return exact;
}

// Returns the inputs of the last step of a request, which writes the outputs from `sums`. `sums` may be null.
inline clipping::DeviceFinish make_device_finish(const ClipRequest& r, const clipping::DeviceClip& clip,
                                                 const double* sums) {
    clipping::DeviceFinish f{sums, clip.columns, r.deviation, r.stream != nullptr, r.accumulate, {}};
    if (r.stream) f.stream = *r.stream;
    return f;
}

inline clipping::ExactFinish make_exact_device_finish(const ClipRequest& r, const unsigned long long* sums) {
    clipping::ExactFinish f{sums,           r.grid,       r.deviation,  r.stream != nullptr,
                            r.out_integers, r.out_double, r.accumulate, {}};
    if (r.stream) f.stream = *r.stream;
    return f;
}

}  // namespace tightdp
