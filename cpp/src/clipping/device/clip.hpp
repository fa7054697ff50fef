// The steps by which the threads of a device clip, add up and add noise; loops: one_read.cuh, launches:
// clipping/clipped_sum.cu, and on the host, for tests, testing/clip_emulation.cpp and kernel_emulation.cpp.
// docs/theory/clipping.md, sections 1 to 3; compile without contraction.
//
// Teams are those of runtime/team.hpp. A row is clipped as on the CPU: squares in double, the factor of
// clip_factor, products rounded to float32 where rows are float32 or narrower and not transformed, sums in double.
#pragma once

#include <cmath>
#include <cstdint>

#include "tightdp/clipping/factor.hpp"
#include "tightdp/clipping/narrow_float.hpp"
#include "tightdp/random/lane_normals.hpp"

namespace tightdp::clipping {

// Columns of every row, as ClipSegment: rows are `stride` bytes apart; `first` counts columns over all segments, and
// first_tile tiles (exact.hpp).
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
    const double *weights, *center, *inverse_scale;  // null: none
    double* norms;                                   // null: not wanted

    TIGHTDP_HD double weight(std::int64_t row) const noexcept { return weights ? weights[row] : 1.0; }
};

// Columns a team squares at a time on the way to a row's norm.
inline constexpr std::int64_t kDevicePiece = 4096;

// Additions that one square goes through: a lane's share of a piece, the butterfly, the pieces in turn.
TIGHTDP_HD inline double device_chain(std::int64_t columns, int lanes) noexcept {
    return static_cast<double>(kDevicePiece / lanes + 6 + columns / kDevicePiece + 1);
}

TIGHTDP_HD inline double wide(double x) noexcept {
    return x;
}
TIGHTDP_HD inline double wide(float x) noexcept {
    return x;
}
TIGHTDP_HD inline double wide(Float16 x) noexcept {
    return to_float(x);
}
TIGHTDP_HD inline double wide(BFloat16 x) noexcept {
    return to_float(x);
}

// The last segment whose first column, or first tile, is at most `index`: the one that holds it.
template <std::int64_t DeviceSegment::* first = &DeviceSegment::first>
TIGHTDP_HD inline const DeviceSegment& segment_of(const DeviceClip& clip, std::int64_t index) noexcept {
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
TIGHTDP_HD inline const T* row_of(const DeviceSegment& segment, std::int64_t row) noexcept {
    return reinterpret_cast<const T*>(static_cast<const char*>(segment.data) + row * segment.stride);
}

TIGHTDP_HD inline double transformed(const DeviceClip& clip, double x, std::int64_t column) noexcept {
    return clip.center ? (x - clip.center[column]) * clip.inverse_scale[column] : x;
}

// One product of a clipped row, rounded as its dtype asks.
TIGHTDP_HD inline double product(const DeviceClip& clip, double x, double factor) noexcept {
    if (clip.rounding.to_single) return static_cast<float>(x) * static_cast<float>(factor);
    return x * factor;
}

// `sum` and the squares of columns begin, begin + step, .. before `end` of a row whose column c is row[c - origin].
template <class T>
TIGHTDP_HD inline double add_squares(const DeviceClip& clip, double sum, const T* row, std::int64_t origin,
                                     std::int64_t begin, std::int64_t end, int step) noexcept {
    for (std::int64_t c = begin; c < end; c += step) {
        const double x = transformed(clip, wide(row[c - origin]), c);
        sum += x * x;
    }
    return sum;
}

// The sum of squares of columns [begin, end), as the team's lanes share it.
template <class T, class Team>
TIGHTDP_HD inline double run_squares(const DeviceClip& clip, const Team& team, const T* row, std::int64_t origin,
                                     std::int64_t begin, std::int64_t end) noexcept {
    return team.sum(add_squares(clip, 0.0, row, origin, begin + team.lane(), end, team.size()));
}

// The sum of squares of columns [begin, begin + kDevicePiece) of a row.
template <class T, class Team>
TIGHTDP_HD inline double piece_squares(const DeviceClip& clip, const Team& team, std::int64_t row,
                                       std::int64_t begin) noexcept {
    const std::int64_t end = begin + kDevicePiece < clip.columns ? begin + kDevicePiece : clip.columns;
    double sum = 0;
    for (std::int64_t column = begin; column < end;) {
        const DeviceSegment& segment = segment_of(clip, column);
        const std::int64_t stop = segment.first + segment.columns < end ? segment.first + segment.columns : end;
        sum = add_squares(clip, sum, row_of<T>(segment, row), segment.first, column + team.lane(), stop, team.size());
        column = stop;
    }
    return team.sum(sum);
}

// The norm of a row whose sum of squares overflowed or met a NaN: in units of the largest entry; +inf where an entry is
// not finite. Rounded up by what a sum of that many squares in a row can lose. Rare, so one thread's plain loop.
template <class T>
TIGHTDP_HD inline double norm_of_large(const DeviceClip& clip, std::int64_t row) noexcept {
    double largest = 0, square = 0;
    bool finite = true;
    for (int pass = 0; pass < 2; ++pass) {
        if (!finite) return HUGE_VAL;
        const int exponent = pass == 0 ? 0 : std::ilogb(largest);
        for (int i = 0; i < clip.segment_count; ++i) {
            const DeviceSegment& segment = clip.segments[i];
            for (std::int64_t c = 0; c < segment.columns; ++c) {
                const double x = std::fabs(transformed(clip, wide(row_of<T>(segment, row)[c]), segment.first + c));
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

// The norm of a row from its sum of squares, reported where asked for.
template <class T>
TIGHTDP_HD inline double row_norm(const DeviceClip& clip, std::int64_t row, double square) noexcept {
    const double norm = square < HUGE_VAL ? std::sqrt(square) : norm_of_large<T>(clip, row);
    if (clip.norms) clip.norms[row] = norm;
    return norm;
}

// The factor of a row from its sum of squares.
template <class T>
TIGHTDP_HD inline double row_factor(const DeviceClip& clip, std::int64_t row, double square) noexcept {
    const double norm = row_norm<T>(clip, row, square), weight = clip.weight(row);
    // Weights in device memory were not looked at by the host: one out of range adds nothing.
    if (!(weight >= 0 && weight * clip.max_norm <= (clip.rounding.to_single ? 1e25 : 1e100))) return 0;
    return clip_factor(norm, clip.max_norm, weight, clip.rule, clip.stability, clip.rounding);
}

// The inputs of the last step, which writes the outputs: sums (null: zero), plus noise, plus the old value of out.
struct DeviceFinish {
    const double* sums;
    std::int64_t columns;
    double deviation;
    bool noisy, accumulate;
    random::RandomStream stream;
};

template <class Real>
TIGHTDP_HD inline void finish_column(const DeviceClip& clip, const DeviceFinish& f, std::int64_t column,
                                     Real noise) noexcept {
    if (column >= f.columns) return;
    double value = f.sums ? f.sums[column] : 0;
    const DeviceSegment& segment = segment_of(clip, column);
    Real& out = static_cast<Real*>(segment.out)[column - segment.first];
    if (f.noisy) value += f.deviation * static_cast<double>(noise);
    out = static_cast<Real>(f.accumulate ? static_cast<double>(out) + value : value);
}

// The eight columns of a lane of a tile of 128.
template <class Real>
TIGHTDP_HD inline void finish_lane(const DeviceClip& clip, const DeviceFinish& f, std::int64_t tile,
                                   int lane) noexcept {
    random::NormalPair<Real> pairs[4] = {};
    if (f.noisy) random::lane_normals<Real>(f.stream, static_cast<std::uint64_t>(tile), lane, pairs);
    for (int k = 0; k < 4; ++k) {
        const std::int64_t column = tile * random::kTileValues + 32 * k + lane;
        finish_column<Real>(clip, f, column, pairs[k].cosine);
        finish_column<Real>(clip, f, column + 16, pairs[k].sine);
    }
}

}  // namespace tightdp::clipping
