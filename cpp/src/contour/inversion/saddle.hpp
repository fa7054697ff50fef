// Estimates that guide the choice of the contour, a line of real part c (docs/theory/contour.md, section 1): the saddle
// point, and a normal approximation for any c. The saddle point is the c > 0 at which G(c) e^{-c eps} is smallest. Here
// G(z) = M(z) / (z (z + 1)), and M is the moment generating function of the privacy loss. The bounds do not depend on
// the precision of these estimates.
#pragma once

#include <cmath>

#include "contour/mgf/mgf_moments.hpp"

namespace tightdp::contour {

struct Saddle {
    double c, epsilon, log_delta;
    Cumulants k;
};

// Returns the second derivative of ln G at c.
TIGHTDP_HD inline double saddle_curvature(double c, const Cumulants& k) noexcept {
    return k.k2 + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
}

// Returns the epsilon for which c is the saddle point, and an estimate of ln delta at this epsilon.
TIGHTDP_HD inline Saddle saddle_at(double c, const Cumulants& k) noexcept {
    const double epsilon = k.k1 - 1 / c - 1 / (1 + c);
    const double log_delta =
        k.k0 - c * epsilon - std::log(c) - std::log1p(c) - 0.5 * std::log(2 * kPi * saddle_curvature(c, k));
    return {c, epsilon, log_delta, k};
}

// Returns e^{x^2} erfc(x) to a few digits.
TIGHTDP_HD inline double saddle_scaled_erfc(double x) noexcept {
    return x < 5 ? std::exp(x * x) * std::erfc(x) : (1 - 0.5 / (x * x) * (1 - 1.5 / (x * x))) / (x * std::sqrt(kPi));
}

// Estimates ln delta(epsilon). The distribution of the privacy loss y is tilted, which multiplies its density by
// e^{cy} / M(c). The estimate takes the tilted distribution to be normal. It is good near the saddle point and usable
// elsewhere.
TIGHTDP_HD inline double estimate_saddle_log_delta(double c, const Cumulants& k, double epsilon) noexcept {
    const double sd = std::sqrt(k.k2), m = (k.k1 - epsilon) / sd, a = (c * sd - m) / std::sqrt(2.0);
    if (a < -20) return 0;
    const double step = sd / std::sqrt(2.0), first = saddle_scaled_erfc(a);
    const double drop =
        step > 1e-4 ? first - saddle_scaled_erfc(a + step) : step * (2 / std::sqrt(kPi) - 2 * a * first);
    const double half = 0.5 * drop;
    return k.k0 - c * epsilon - 0.5 * m * m + std::log(half > 1e-300 ? half : 1e-300);
}

// Returns the epsilon at which estimate_saddle_log_delta is log_delta, found by bisection.
TIGHTDP_HD inline double estimate_saddle_epsilon(double c, const Cumulants& k, double log_delta) noexcept {
    const double sd = std::sqrt(k.k2);
    double low = k.k1 - 30 * sd, high = k.k1 + 30 * sd;
    for (int i = 0; i < 50; ++i) {
        const double mid = 0.5 * (low + high);
        (estimate_saddle_log_delta(c, k, mid) > log_delta ? low : high) = mid;
    }
    return 0.5 * (low + high);
}

}  // namespace tightdp::contour
