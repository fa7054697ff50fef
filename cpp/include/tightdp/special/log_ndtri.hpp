// The inverse of ln Phi, where Phi is the standard normal distribution function: quantiles at probabilities that may be
// too small for a double.
#pragma once

#include <cmath>

#include "log1mexp.hpp"
#include "normal.hpp"
#include "tightdp/config.hpp"

namespace tightdp {

// Returns the x with ln Phi(x) = log_p, for log_p <= 0. The result is -inf for -inf, inf for 0, and NaN for log_p > 0.
// The relative error is at most 2^-49, plus an absolute error of at most 2^-51 near x = 0.
//
// ln Phi is concave and increasing, and its slope is 1 / R(-x), where R is Mills' ratio (mills.hpp). Newton's method
// computes x if x is left of the median. Otherwise it computes -x from ln Phi(-x) = ln(1 - e^log_p). The method starts
// where ln Phi is too small, at a point that follows from Phi(x) <= e^{-x^2/2} for x <= 0. Because ln Phi is concave,
// the iteration climbs to the root without passing it (docs/theory/special.md, section 4), and stops when it no longer
// climbs.
TIGHTDP_HD inline double log_ndtri(double log_p) noexcept {
    constexpr double ln2 = 0.69314718055994530942;
    if (!(log_p < 0)) return log_p == 0 ? HUGE_VAL : static_cast<double>(NAN);
    if (log_p < -1e100) return -std::sqrt(2.0) * std::sqrt(-log_p);  // ln Phi(x) is -x^2/2 up to negligible terms
    const bool mirrored = log_p > -ln2;
    const double target = mirrored ? log1mexp(log_p) : log_p;
    double x = -std::sqrt(-2 * target);
    for (int i = 0; i < 100; ++i) {  // quadratic convergence: 6 or 7 steps
        const double step = (target - log_ndtr(x)) * mills_ratio(-x);
        if (!(step > 2 * kUnitRoundoff * std::fabs(x))) break;
        x = x + step < 0 ? x + step : 0.0;
    }
    return mirrored ? -x : x;
}

}  // namespace tightdp
