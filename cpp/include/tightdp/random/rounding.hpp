// Rounds sigma z to an integer, where z is a floating-point approximation of an exact normal number Z. The integer is
// called a draw. If sigma Z might round to another integer, the draw is "in doubt" (docs/theory/noise.md, section 5.2).
// Two uniform numbers x and y give a pair of normals by the method of Box and Muller. Compile without contraction to
// fused multiply-adds (normal.hpp).
#pragma once

#include "normal.hpp"

namespace tightdp::random {

// Limits outside of which draws with the standard deviation `sigma` are in doubt. The limits hold if the first
// `first_bits` binary digits of the two uniform numbers x and y are used. `first_bits` is 64, or smaller in tests, so
// that draws in doubt become common.
struct RoundingLimits {
    double sigma;
    double gap;              // the distance of sigma z from the nearest integer has to be below this
    double lowest, highest;  // the first 32 digits of x, as an integer, have to be in [lowest, highest)
};

template <int first_bits>
TIGHTDP_FORMULA RoundingLimits normal_rounding_limits(double sigma) noexcept {
    const double relative = 0x1p-44 * sigma, window = 0x1p-12 * sigma;
    const double error = relative > 0x1p-20 ? relative : 0x1p-20;
    if constexpr (first_bits < 64) {
        constexpr double spread = 9.0 / static_cast<double>(std::uint64_t{1} << first_bits);
        return {sigma, 0.5 - error - spread * sigma, 0x1p29, 0x7p29};
    }
    const double lowest = window > 1 ? window : 1;
    return {sigma, 0.5 - error, lowest < 0x1p13 ? lowest : 0x1p13, 0x1p32 - 1};
}

// Computes the integer nearest to sigma z. Precondition: |sigma z| < 2^51. Returns true if, by the limit `gap`, sigma Z
// may round to another integer.
TIGHTDP_FORMULA bool round_normal(const RoundingLimits& limits, double z, std::int64_t& nearest) noexcept {
    constexpr double shift = 0x1.8p52;  // an integer that is added to `shift` appears in the last binary digits
    const double v = limits.sigma * z, shifted = v + shift, gap = v - (shifted - shift);
    nearest =
        detail::reinterpret_normal_bits<std::int64_t>(shifted) - detail::reinterpret_normal_bits<std::int64_t>(shift);
    return !((gap < limits.gap) & (-gap < limits.gap));
}

// The two integers of a pair, and for each whether the integer is in doubt.
struct RoundedPair {
    std::int64_t cosine, sine;
    bool cosine_in_doubt, sine_in_doubt;
};

// Rounds the two normals of a pair, from the first digits of x and y in the words w0 to w3.
template <int first_bits>
TIGHTDP_FORMULA RoundedPair round_normal_pair(const RoundingLimits& cosine, const RoundingLimits& sine,
                                              std::uint32_t w0, std::uint32_t w1, std::uint32_t w2,
                                              std::uint32_t w3) noexcept {
    if constexpr (first_bits < 64) {  // takes the middle of the interval of numbers with these first digits
        static_assert(first_bits < 32);
        constexpr std::uint32_t open = 0xffffffffu >> first_bits, middle = 0x80000000u >> first_bits;
        w0 = (w0 & ~open) | middle;
        w2 = (w2 & ~open) | middle;
        w1 = w3 = 0;
    }
    const NormalPair<double> pair = normal_pair<double>(w0, w1, w2, w3);
    const double digits = w0;
    RoundedPair rounded;
    const bool near_cosine = round_normal(cosine, pair.cosine, rounded.cosine);
    const bool near_sine = round_normal(sine, pair.sine, rounded.sine);
    rounded.cosine_in_doubt = near_cosine | (digits < cosine.lowest) | (digits >= cosine.highest);
    rounded.sine_in_doubt = near_sine | (digits < sine.lowest) | (digits >= sine.highest);
    return rounded;
}

}  // namespace tightdp::random
