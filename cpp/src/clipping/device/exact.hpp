// The steps by which the threads of a device compute the exact form: every row becomes the integers that it becomes on
// the CPU, bit for bit. docs/theory/clipping.md, section 7; loops: exact_kernels.cuh; compile without contraction.
#pragma once

#include <cstdint>

#include "clip.hpp"
#include "tightdp/random/rounded_normal.hpp"

namespace tightdp::clipping {

// A row's squares are added as on the CPU (clipping/plan.hpp), in an order that depends on its columns alone:
// those of a tile, 16 columns apart, by 16 lanes; the lanes as a tree; the tiles of a stripe in turn; the
// stripes in turn.
inline constexpr int kSquareLanes = 16;
inline constexpr std::int64_t kSquareTile = 1024;
inline constexpr int kMostStripes = 64;

struct DeviceExact {
    double grid;
    double lane_weight;  // rows of a larger weight are multiplied in double
    std::int64_t tiles;
    int stripes;
    std::int64_t stripe[kMostStripes + 1];  // the first tile of each, then the number of tiles
};

// A lane's share of the sum of squares of a tile of a row.
template <class T>
TIGHTDP_HD inline double lane_squares(const DeviceClip& clip, std::int64_t row, std::int64_t tile, int lane) noexcept {
    const DeviceSegment& segment = segment_of<&DeviceSegment::first_tile>(clip, tile);
    const std::int64_t begin = (tile - segment.first_tile) * kSquareTile;
    const std::int64_t end = begin + kSquareTile < segment.columns ? begin + kSquareTile : segment.columns;
    return add_squares(clip, 0.0, row_of<T>(segment, row), segment.first, segment.first + begin + lane,
                       segment.first + end, kSquareLanes);
}

// T such that row k adds trunc(fl(T x)), from the sums of squares of its tiles; negative where the row is
// heavy: then -T.
template <class T>
TIGHTDP_HD inline double exact_factor(const DeviceClip& clip, const DeviceExact& exact, std::int64_t row,
                                      const double* squares) noexcept {
    double square = 0;
    for (int s = 0; s < exact.stripes; ++s) {
        double of_stripe = 0;
        for (std::int64_t t = exact.stripe[s]; t < exact.stripe[s + 1]; ++t) of_stripe += squares[t];
        square += of_stripe;
    }
    const double norm = row_norm<T>(clip, row, square), weight = clip.weight(row);
    // Weights in device memory were not looked at by the host: one out of range adds nothing.
    if (!(weight >= 0 && weight <= 0x1p32)) return 0;
    const double factor =
        clip_factor(norm, clip.max_norm, weight, clip.rule, clip.stability, exact_rounding(clip.rounding));
    const bool heavy = weight > exact.lane_weight;
    const double scaled = grid_factor(factor, 1 / exact.grid, clip.rounding.to_single && !heavy);
    return heavy ? -scaled : scaled;
}

// One integer of a row, modulo 2^64.
TIGHTDP_HD inline unsigned long long exact_term(const DeviceClip& clip, double x, double factor) noexcept {
    return static_cast<unsigned long long>(static_cast<long long>(factor < 0 ? -factor * x : product(clip, x, factor)));
}

// The inputs of the last step, which writes the outputs: integers, with `noisy` rounded normals of `sigma` steps, to
// int64, or times the grid to floats.
struct ExactFinish {
    const unsigned long long* sums;
    double grid, sigma;
    bool noisy, integers, out_double, accumulate;
    random::RandomStream stream;
};

TIGHTDP_HD inline void finish_exactly(const DeviceClip& clip, const ExactFinish& f, std::int64_t column) noexcept {
    const DeviceSegment& segment = segment_of(clip, column);
    const std::int64_t at = column - segment.first;
    unsigned long long sum = f.sums[column];
    if (f.noisy)
        sum += static_cast<unsigned long long>(
            random::rounded_normal_at(f.stream, segment.noise_index + static_cast<std::uint64_t>(at), f.sigma).integer);
    const auto n = static_cast<long long>(sum);
    if (f.integers) {
        auto& out = static_cast<unsigned long long*>(segment.out)[at];
        out = f.accumulate ? out + sum : sum;
    } else if (f.out_double) {
        static_cast<double*>(segment.out)[at] = static_cast<double>(n) * f.grid;
    } else {
        static_cast<float*>(segment.out)[at] = static_cast<float>(static_cast<double>(n) * f.grid);
    }
}

}  // namespace tightdp::clipping
