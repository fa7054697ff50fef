// The formulas by which the threads of a device (GPU) clip rows, add them up and add noise (docs/theory/clipping.md,
// sections 1 to 3). The loops are in held_rows.cuh and rows_read_twice.cuh, and the launches in
// clipping/clipped_sum.cu. For tests, the host runs the formulas in testing/clip_emulation.cpp and
// testing/kernel_emulation.cpp. Compile without contraction of a * b + c to fused multiply-adds.
//
// A team is a number of threads, called lanes, that compute one number together (runtime/team.hpp). A row is clipped as
// on the CPU. Squares are computed in double, and the clip factor is the result of clip_factor
// (tightdp/clipping/factor.hpp). A product is an entry of a row times the clip factor. Products are rounded to float32
// if rows are float32 or narrower, unless the request has a center and a scale. Sums are computed in double.
#pragma once

#include <cmath>
#include <cstdint>

#include "tightdp/clipping/factor.hpp"
#include "tightdp/clipping/narrow_float.hpp"
#include "tightdp/random/lane_normals.hpp"

namespace tightdp::clipping {

// A range of columns of every row, as in ClipSegment. Rows are `stride` bytes apart. `first` is the index of the
// segment's first column among the columns of all segments. The exact form divides each segment into tiles of columns
// (exact_clip_formulas.hpp), and first_tile is the index of the segment's first tile among the tiles of all segments.
struct DeviceSegment {
    const void* data;
    std::int64_t stride, first, columns;
    void* out;
    std::int64_t first_tile;
    std::uint64_t noise_index;
};

struct DeviceClip {
    const DeviceSegment* segments;
    int segment_count;
    std::int64_t rows, columns;
    double max_norm, stability;
    Rule rule;
    Rounding rounding;
    const double *weights, *center, *inverse_scale;  // each is null if the request has none
    double* norms;                                   // null if not wanted

    TIGHTDP_HD double device_clip_weight(std::int64_t row) const noexcept { return weights ? weights[row] : 1.0; }
};

// Number of columns that a team squares at a time when it computes the norm of a row.
inline constexpr std::int64_t kDevicePiece = 4096;

// Returns the largest number of additions through which a square passes. First a lane adds the squares in its share of
// a piece. Then the sums of a team's lanes are added, and at last the sums of the pieces.
TIGHTDP_HD inline double device_clip_chain(std::int64_t columns, int lanes) noexcept {
    return static_cast<double>(kDevicePiece / lanes + 6 + columns / kDevicePiece + 1);
}

TIGHTDP_HD inline double widen_device_clip_entry(double x) noexcept {
    return x;
}
TIGHTDP_HD inline double widen_device_clip_entry(float x) noexcept {
    return x;
}
TIGHTDP_HD inline double widen_device_clip_entry(Float16 x) noexcept {
    return to_float(x);
}
TIGHTDP_HD inline double widen_device_clip_entry(BFloat16 x) noexcept {
    return to_float(x);
}

// Returns the segment that has the column or the tile with this index. This is the last segment whose first column or
// tile is at most `index`.
template <std::int64_t DeviceSegment::* first = &DeviceSegment::first>
TIGHTDP_HD inline const DeviceSegment& find_device_clip_segment(const DeviceClip& clip, std::int64_t index) noexcept {
    int low = 0, high = clip.segment_count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (clip.segments[middle].*first <= index)
            low = middle;
        else
            high = middle - 1;
    }
    return clip.segments[low];
}

template <class T>
TIGHTDP_HD inline const T* find_device_clip_row(const DeviceSegment& segment, std::int64_t row) noexcept {
    return reinterpret_cast<const T*>(static_cast<const char*>(segment.data) + row * segment.stride);
}

TIGHTDP_HD inline double transform_clip_entry(const DeviceClip& clip, double x, std::int64_t column) noexcept {
    return clip.center ? (x - clip.center[column]) * clip.inverse_scale[column] : x;
}

// Returns the entry x of a row times the row's clip factor, rounded to float32 if clip.rounding says so.
TIGHTDP_HD inline double device_clip_product(const DeviceClip& clip, double x, double factor) noexcept {
    if (clip.rounding.to_single) return static_cast<float>(x) * static_cast<float>(factor);
    return x * factor;
}

// Adds to `sum` the squares of the columns begin, begin + step, ... before `end`, and returns the result. Column c of
// the row is row[c - origin].
template <class T>
TIGHTDP_HD inline double add_device_clip_squares(const DeviceClip& clip, double sum, const T* row, std::int64_t origin,
                                          std::int64_t begin, std::int64_t end, int step) noexcept {
    for (std::int64_t c = begin; c < end; c += step) {
        const double x = transform_clip_entry(clip, widen_device_clip_entry(row[c - origin]), c);
        sum += x * x;
    }
    return sum;
}

// Returns the sum of squares of the columns [begin, end), which the lanes of the team compute together.
template <class T, class Team>
TIGHTDP_HD inline double sum_held_clip_squares(const DeviceClip& clip, const Team& team, const T* row,
                                               std::int64_t origin, std::int64_t begin, std::int64_t end) noexcept {
    return team.sum(add_device_clip_squares(clip, 0.0, row, origin, begin + team.lane(), end, team.size()));
}

// Returns the sum of squares of the columns [begin, begin + kDevicePiece) of a row.
template <class T, class Team>
TIGHTDP_HD inline double sum_device_clip_piece_squares(const DeviceClip& clip, const Team& team, std::int64_t row,
                                                std::int64_t begin) noexcept {
    const std::int64_t end = begin + kDevicePiece < clip.columns ? begin + kDevicePiece : clip.columns;
    double sum = 0;
    for (std::int64_t column = begin; column < end;) {
        const DeviceSegment& segment = find_device_clip_segment(clip, column);
        const std::int64_t stop = segment.first + segment.columns < end ? segment.first + segment.columns : end;
        sum = add_device_clip_squares(clip, sum, find_device_clip_row<T>(segment, row), segment.first, column + team.lane(), stop,
                               team.size());
        column = stop;
    }
    return team.sum(sum);
}

// Returns the norm of a row whose sum of squares is infinite or NaN. The squares are computed in units of a power of
// two near the largest entry. The norm is +inf if an entry is not finite. A finite norm is increased by the largest
// rounding error of the sum. Since such rows are rare, one thread computes the norm in a plain loop.
template <class T>
TIGHTDP_HD inline double large_device_clip_norm(const DeviceClip& clip, std::int64_t row) noexcept {
    double largest = 0, square = 0;
    bool finite = true;
    for (int pass = 0; pass < 2; ++pass) {
        if (!finite) return HUGE_VAL;
        const int exponent = pass == 0 ? 0 : std::ilogb(largest);
        for (int i = 0; i < clip.segment_count; ++i) {
            const DeviceSegment& segment = clip.segments[i];
            for (std::int64_t c = 0; c < segment.columns; ++c) {
                const double x = std::fabs(transform_clip_entry(
                    clip, widen_device_clip_entry(find_device_clip_row<T>(segment, row)[c]), segment.first + c));
                if (pass == 0) {
                    finite = finite && x < HUGE_VAL;
                    largest = x > largest ? x : largest;
                } else {
                    const double y = std::scalbn(x, -exponent);
                    square += y * y;
                }
            }
        }
        const double lost = static_cast<double>(clip.columns + 8) * 0x1p-53;
        if (pass == 1) return std::scalbn(std::sqrt(square) * (1 + lost), exponent);
    }
    return HUGE_VAL;
}

// Returns the norm of a row from its sum of squares, and writes it to the norms of the request if they are wanted.
template <class T>
TIGHTDP_HD inline double device_clip_norm(const DeviceClip& clip, std::int64_t row, double square) noexcept {
    const double norm = square < HUGE_VAL ? std::sqrt(square) : large_device_clip_norm<T>(clip, row);
    if (clip.norms) clip.norms[row] = norm;
    return norm;
}

// Returns the clip factor of a row from its sum of squares.
template <class T>
TIGHTDP_HD inline double device_clip_factor(const DeviceClip& clip, std::int64_t row, double square) noexcept {
    const double norm = device_clip_norm<T>(clip, row, square), weight = clip.device_clip_weight(row);
    // The host has not checked weights in device memory. A row whose weight is out of range adds nothing.
    if (!(weight >= 0 && weight * clip.max_norm <= (clip.rounding.to_single ? 1e25 : 1e100))) return 0;
    return clip_factor(norm, clip.max_norm, weight, clip.rule, clip.stability, clip.rounding);
}

// The inputs of the last step, which writes the outputs. An output is the sum (0 if `sums` is null), plus noise, plus
// the old value of the output if the request accumulates.
struct DeviceFinish {
    const double* sums;
    std::int64_t columns;
    double deviation;
    bool noisy, accumulate;
    random::RandomStream stream;
};

template <class Real>
TIGHTDP_HD inline void finish_clip_column(const DeviceClip& clip, const DeviceFinish& f, std::int64_t column,
                                          Real noise) noexcept {
    if (column >= f.columns) return;
    double value = f.sums ? f.sums[column] : 0;
    const DeviceSegment& segment = find_device_clip_segment(clip, column);
    Real& out = static_cast<Real*>(segment.out)[column - segment.first];
    if (f.noisy) value += f.deviation * static_cast<double>(noise);
    out = static_cast<Real>(f.accumulate ? static_cast<double>(out) + value : value);
}

// Writes the outputs of eight columns. Noise is drawn for tiles of kTileValues = 128 columns, which are not the tiles
// of the exact form. The eight columns belong to one lane of such a tile.
template <class Real>
TIGHTDP_HD inline void finish_clip_lane(const DeviceClip& clip, const DeviceFinish& f, std::int64_t tile,
                                        int lane) noexcept {
    random::NormalPair<Real> pairs[4] = {};
    if (f.noisy) random::lane_normals<Real>(f.stream, static_cast<std::uint64_t>(tile), lane, pairs);
    for (int k = 0; k < 4; ++k) {
        const std::int64_t column = tile * random::kTileValues + 32 * k + lane;
        finish_clip_column<Real>(clip, f, column, pairs[k].cosine);
        finish_clip_column<Real>(clip, f, column + 16, pairs[k].sine);
    }
}

}  // namespace tightdp::clipping
