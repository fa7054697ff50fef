// Aliasing: the error of the infinite trapezoid rule in delta. docs/theory/contour.md, section 2.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp::contour {

// ln of kappa(c) = c^c / (1 + c)^(1 + c), the constant of delta(eps) <= M(c) e^{-c eps} kappa(c). c >= 0;
// kappa(0) = 1.
TIGHTDP_HD inline double log_kappa(double c) noexcept {
    return c > 0 ? -c * std::log1p(1 / c) - std::log1p(c) : 0.0;
}

// One side of the excess: sum over k >= 1 of e^{-k gap period} e^{log_chernoff}, where log_chernoff = K(c') -
// c' eps + log_kappa(c') at the auxiliary abscissa c' and gap = |c' - c| > 0. Includes a factor for its own
// rounding.
TIGHTDP_HD inline double alias_excess(double log_chernoff, double gap, double period) noexcept {
    return std::exp(log_chernoff - gap * period) / -std::expm1(-gap * period) * (1 + 1e-9);
}

// The period at which one side of the excess is at most e^{log_target} (up to the geometric factor).
TIGHTDP_HD inline double alias_period(double log_chernoff, double gap, double log_target) noexcept {
    return (log_chernoff - log_target) / gap;
}

}  // namespace tightdp::contour
