// A number known to lie between two others.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

struct Interval {
    double lower, upper;
};

// The neighbours of a probability: one rounding outwards, and never outside [0, 1].
TIGHTDP_HD inline double below(double p) noexcept {
    return p > 0 ? p * (1 - 2 * kUnitRoundoff) : 0.0;
}
TIGHTDP_HD inline double above(double p) noexcept {
    const double up = p * (1 + 4 * kUnitRoundoff);
    return up < 1 ? up : 1.0;
}

// The interval of all x >= 0 whose computed value, right to a relative error below 1, was `value`.
// One more unit on each side pays for the two operations here; the smallest subnormal, for underflow.
TIGHTDP_HD inline Interval around(double value, double relative_error) noexcept {
    constexpr double least = 4.9406564584124654e-324;
    const double r = relative_error + 4 * kUnitRoundoff;
    const double lower = value * (1 - r) - 4 * least, upper = value * (1 + r) + 4 * least;
    return {lower > 0 ? lower : 0.0, upper};
}

}  // namespace tightdp
