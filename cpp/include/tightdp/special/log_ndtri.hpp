// The inverse of ln Phi: quantiles of the normal law at probabilities that underflow.
#pragma once

#include <cmath>

#include "log1mexp.hpp"
#include "normal.hpp"
#include "tightdp/config.hpp"

namespace tightdp {

// x with ln Phi(x) = log_p, log_p <= 0; -inf at -inf, inf at 0, NaN above. Error at most 16 u relatively,
// plus 4 u absolutely near x = 0.
//
// ln Phi is concave and increasing with slope 1 / R(-x). Right of the median the equation is mirrored. Left
// of it Newton's method starts where ln Phi is too small (Phi(x) <= e^{-x^2/2} for x <= 0) and, by concavity,
// climbs to the root without passing it: docs/theory/special.md, 4. It stops when it no longer climbs.
TIGHTDP_HD inline double log_ndtri(double log_p) noexcept {
    constexpr double ln2 = 0.69314718055994530942;
    if (!(log_p < 0)) return log_p == 0 ? HUGE_VAL : static_cast<double>(NAN);
    if (log_p < -1e100) return -std::sqrt(2.0) * std::sqrt(-log_p);  // all but x^2/2 is nothing there
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
