// Sums and differences of numbers known by their logarithms.
#pragma once

#include <cmath>

#include "log1mexp.hpp"
#include "tightdp/config.hpp"

namespace tightdp {

// ln(e^a + e^b); either may be -inf, neither NaN or +inf. Error at most 3 u (|result| + 1).
TIGHTDP_HD inline double logaddexp(double a, double b) noexcept {
    const double high = a > b ? a : b, low = a > b ? b : a;
    return low == -HUGE_VAL ? high : high + std::log1p(std::exp(low - high));
}

// ln(e^a - e^b) for b <= a; -inf when they are equal. Error: 6 u |ln(1 - e^{b-a})| + u |result|, for the
// given a, b.
TIGHTDP_HD inline double logsubexp(double a, double b) noexcept {
    return b == -HUGE_VAL ? a : a + log1mexp(b - a);
}

}  // namespace tightdp
