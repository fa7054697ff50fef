// The logarithm of a sum of numbers that are given by their logarithms.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

// Returns ln(e^a + e^b). The arguments may be -inf, but not NaN or +inf. The error is at most 3 * 2^-53 (|result| + 1).
TIGHTDP_HD inline double logaddexp(double a, double b) noexcept {
    const double high = a > b ? a : b, low = a > b ? b : a;
    return low == -HUGE_VAL ? high : high + std::log1p(std::exp(low - high));
}

}  // namespace tightdp
