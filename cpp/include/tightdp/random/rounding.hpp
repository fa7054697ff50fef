// Rounding sigma z to an integer where the float z leaves no doubt of what the real one rounds to.
// docs/theory/noise.md, section 5.2. Compile without contraction (normal.hpp).
#pragma once

#include "normal.hpp"

namespace tightdp::random {

// Tells, for a standard deviation, which draws are in doubt: their first digits do not decide how they round. The first
// `first_bits` binary digits of each uniform are looked at: 64, or fewer in tests, where doubt is to be common.
struct RoundingLimits {
    double sigma;
    double gap;              // v at this distance from its nearest integer, or farther
    double lowest, highest;  // the first 32 digits of x below `lowest`, or from `highest` on
};

template <int first_bits>
TIGHTDP_FORMULA RoundingLimits rounding_limits(double sigma) noexcept {
    const double relative = 0x1p-44 * sigma, window = 0x1p-12 * sigma;
    const double error = relative > 0x1p-20 ? relative : 0x1p-20;
    if constexpr (first_bits < 64) {
        constexpr double spread = 9.0 / static_cast<double>(std::uint64_t{1} << first_bits);
        return {sigma, 0.5 - error - spread * sigma, 0x1p29, 0x7p29};
    }
    const double lowest = window > 1 ? window : 1;
    return {sigma, 0.5 - error, lowest < 0x1p13 ? lowest : 0x1p13, 0x1p32 - 1};
}

// The integer nearest to sigma z, |sigma z| < 2^51; true where the rounded real number may be another.
TIGHTDP_FORMULA bool nearest_integer(const RoundingLimits& limits, double z, std::int64_t& nearest) noexcept {
    constexpr double shift = 0x1.8p52;  // an integer added to it is its last binary digits
    const double v = limits.sigma * z, shifted = v + shift, gap = v - (shifted - shift);
    nearest = detail::reinterpret<std::int64_t>(shifted) - detail::reinterpret<std::int64_t>(shift);
    return !((gap < limits.gap) & (-gap < limits.gap));
}

// The two integers of a pair and whether they are in doubt.
struct RoundedPair {
    std::int64_t cosine, sine;
    bool cosine_in_doubt, sine_in_doubt;
};

template <int first_bits>
TIGHTDP_FORMULA RoundedPair nearest_pair(const RoundingLimits& cosine, const RoundingLimits& sine, std::uint32_t w0,
                                         std::uint32_t w1, std::uint32_t w2, std::uint32_t w3) noexcept {
    if constexpr (first_bits < 64) {  // the middle of what the first digits leave open
        static_assert(first_bits < 32);
        constexpr std::uint32_t open = 0xffffffffu >> first_bits, middle = 0x80000000u >> first_bits;
        w0 = (w0 & ~open) | middle;
        w2 = (w2 & ~open) | middle;
        w1 = w3 = 0;
    }
    const NormalPair<double> pair = normal_pair<double>(w0, w1, w2, w3);
    const double digits = w0;
    RoundedPair rounded;
    const bool near_cosine = nearest_integer(cosine, pair.cosine, rounded.cosine);
    const bool near_sine = nearest_integer(sine, pair.sine, rounded.sine);
    rounded.cosine_in_doubt = near_cosine | (digits < cosine.lowest) | (digits >= cosine.highest);
    rounded.sine_in_doubt = near_sine | (digits < sine.lowest) | (digits >= sine.highest);
    return rounded;
}

}  // namespace tightdp::random
