// The formulas by which the threads of a device (GPU) compute clipped sums in the exact form, as sums of integers
// (clipping/clipped_sum.hpp). Each row becomes the same integers as on the CPU (docs/theory/clipping.md, section 7).
// The loops are in exact_clip_kernels.cuh. Compile without contraction of a * b + c to fused multiply-adds.
#pragma once

#include <cstdint>

#include "clip_formulas.hpp"
#include "tightdp/random/rounded_normal.hpp"

namespace tightdp::clipping {

// The squares of a row are added as on the CPU (clipping/clip_plan.hpp), in an order that depends on the columns alone.
// A tile is a range of columns, and a stripe is a range of tiles. In a tile, each of 16 lanes adds columns that are 16
// apart, and the lanes are added in pairs. Then the tiles of a stripe are added one after the other, and then the
// stripes.
inline constexpr int kSquareLanes = 16;
inline constexpr std::int64_t kSquareTile = 1024;
inline constexpr int kMostStripes = 64;

struct DeviceExact {
    double grid;         // the unit of the integers
    double lane_weight;  // rows with a larger weight are multiplied in double
    std::int64_t tiles;
    int stripes;
    std::int64_t stripe[kMostStripes + 1];  // the first tile of each stripe, and then the number of tiles
};

// Returns the sum of the squares of a lane's columns in a tile of a row.
template <class T>
TIGHTDP_HD inline double sum_exact_clip_squares(const DeviceClip& clip, std::int64_t row, std::int64_t tile,
                                                int lane) noexcept {
    const DeviceSegment& segment = find_device_clip_segment<&DeviceSegment::first_tile>(clip, tile);
    const std::int64_t begin = (tile - segment.first_tile) * kSquareTile;
    const std::int64_t end = begin + kSquareTile < segment.columns ? begin + kSquareTile : segment.columns;
    return add_device_clip_squares(clip, 0.0, find_device_clip_row<T>(segment, row), segment.first, segment.first + begin + lane,
                            segment.first + end, kSquareLanes);
}

// Computes the factor T_k of row k from the sums of squares of its tiles. An entry x_j of the row becomes the integer
// trunc(fl(T_k x_j)), where fl denotes rounding to floating point. Returns T_k, or -T_k for a row whose products are
// computed in double because of its weight.
template <class T>
TIGHTDP_HD inline double exact_device_clip_factor(const DeviceClip& clip, const DeviceExact& exact, std::int64_t row,
                                           const double* squares) noexcept {
    double square = 0;
    for (int s = 0; s < exact.stripes; ++s) {
        double of_stripe = 0;
        std::int64_t t = exact.stripe[s];
        // Eight squares are read before they are added one after the other, so that a thread waits for memory once for
        // eight squares.
        for (double next[8]; t + 8 <= exact.stripe[s + 1]; t += 8) {
            for (int k = 0; k < 8; ++k) next[k] = squares[t + k];
            for (int k = 0; k < 8; ++k) of_stripe += next[k];
        }
        for (; t < exact.stripe[s + 1]; ++t) of_stripe += squares[t];
        square += of_stripe;
    }
    const double norm = device_clip_norm<T>(clip, row, square), weight = clip.device_clip_weight(row);
    // The host has not checked weights in device memory. A row whose weight is out of range adds nothing.
    if (!(weight >= 0 && weight <= 0x1p32)) return 0;
    const double factor =
        clip_factor(norm, clip.max_norm, weight, clip.rule, clip.stability, exact_clip_rounding(clip.rounding));
    const bool heavy = weight > exact.lane_weight;
    const double scaled = grid_clip_factor(factor, 1 / exact.grid, clip.rounding.to_single && !heavy);
    return heavy ? -scaled : scaled;
}

// Returns one integer of a row, modulo 2^64, from the entry x and the row's `factor`. exact_device_clip_factor() computes the
// factor and explains negative factors.
TIGHTDP_HD inline unsigned long long exact_clip_term(const DeviceClip& clip, double x, double factor) noexcept {
    return static_cast<unsigned long long>(
        static_cast<long long>(factor < 0 ? -factor * x : device_clip_product(clip, x, factor)));
}

// The inputs of the last step, which writes the outputs from the integer sums. If `noisy` is true, the last step adds
// rounded normals with a standard deviation of `sigma` grid steps. The results are written as int64, or multiplied by
// `grid` and written as floats. `grid` is the grid's step or, if the release is a mean, this step divided by the mean's
// divisor.
struct ExactFinish {
    const unsigned long long* sums;
    double grid, sigma;
    bool noisy, integers, out_double, accumulate;
    random::RandomStream stream;
};

TIGHTDP_HD inline void finish_exact_clip_column(const DeviceClip& clip, const ExactFinish& f,
                                                std::int64_t column) noexcept {
    const DeviceSegment& segment = find_device_clip_segment(clip, column);
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
