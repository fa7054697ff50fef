// An interval that contains a number, and outward rounding.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

struct Interval {
    double lower, upper;
};

// round_interval_probability_down() returns a number slightly below a probability, and round_interval_probability_up() a number slightly
// above. The difference covers one rounding error. The results stay in [0, 1].
TIGHTDP_HD inline double round_interval_probability_down(double p) noexcept {
    return p > 0 ? p * (1 - 2 * kUnitRoundoff) : 0.0;
}
TIGHTDP_HD inline double round_interval_probability_up(double p) noexcept {
    const double up = p * (1 + 4 * kUnitRoundoff);
    return up < 1 ? up : 1.0;
}

// Returns an interval that contains every x >= 0 that `value` approximates with a relative error of at most
// relative_error < 1. The interval is slightly longer, to cover the rounding errors of this function and underflow.
TIGHTDP_HD inline Interval interval_around(double value, double relative_error) noexcept {
    constexpr double least = 4.9406564584124654e-324;
    const double r = relative_error + 4 * kUnitRoundoff;
    const double lower = value * (1 - r) - 4 * least, upper = value * (1 + r) + 4 * least;
    return {lower > 0 ? lower : 0.0, upper};
}

}  // namespace tightdp
