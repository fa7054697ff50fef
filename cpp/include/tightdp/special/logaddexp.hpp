// Sums of numbers known by their logarithms.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

// ln(e^a + e^b); either may be -inf, neither NaN or +inf. Error at most 3 u (|result| + 1).
TIGHTDP_HD inline double logaddexp(double a, double b) noexcept {
    const double high = a > b ? a : b, low = a > b ? b : a;
    return low == -HUGE_VAL ? high : high + std::log1p(std::exp(low - high));
}

}  // namespace tightdp
