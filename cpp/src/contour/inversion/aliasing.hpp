// Aliasing, the error in delta of the infinite trapezoid rule along the line Re z = c (docs/theory/contour.md,
// section 2). The result of the rule contains scaled copies of the curve delta(epsilon), shifted by multiples of the
// period 2 pi / step.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp::contour {

// Returns the logarithm of kappa(c) = c^c / (1 + c)^(1 + c) for c >= 0, where kappa(0) = 1. kappa(c) is the constant of
// the bound delta(eps) <= M(c) e^{-c eps} kappa(c), where M is the moment generating function of the privacy loss.
TIGHTDP_HD inline double log_aliasing_kappa(double c) noexcept {
    return c > 0 ? -c * std::log1p(1 / c) - std::log1p(c) : 0.0;
}

// Returns a bound on the aliasing error from the copies on one side: the sum over k >= 1 of
// e^{-k gap period} e^{log_chernoff}. Let c' be an abscissa other than c ("auxiliary abscissa"). Then
// log_chernoff = ln M(c') - c' eps + log_aliasing_kappa(c'), and gap = |c' - c| > 0. The result is rounded up.
TIGHTDP_HD inline double alias_excess(double log_chernoff, double gap, double period) noexcept {
    return std::exp(log_chernoff - gap * period) / -std::expm1(-gap * period) * (1 + 1e-9);
}

// Returns the period at which the first term (k = 1) of alias_excess() is e^{log_target}.
TIGHTDP_HD inline double alias_period(double log_chernoff, double gap, double log_target) noexcept {
    return (log_chernoff - log_target) / gap;
}

}  // namespace tightdp::contour
