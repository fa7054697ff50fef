// The privacy loss of the Gaussian mechanism on a Poisson sample, and the inverse of this loss. Small losses are
// computed without cancellation.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

inline constexpr double kExp700 = 1.0142320547350045e304;  // e^700

// Returns y = ln(1 - q + q e^t) for q in (0, 1]. If t = (x - 1/2)/s^2, y is the privacy loss at the output x. This loss
// is ln p(x)/p_0(x), where p is the density of (1-q) N(0, s^2) + q N(1, s^2), and p_0 the density of N(0, s^2). y
// increases with t and is larger than ln(1 - q). The error is at most 2^-50 |y| (docs/theory/special.md, section 5).
TIGHTDP_HD inline double sampled_loss(double t, double q) noexcept {
    if (q == 1) return t;
    if (t > 700) {
        // e^t may overflow, so z = q e^t is computed as (q e^700) e^(t - 700). Either q is so small or z so large that
        // 1 - q + z rounds to 1 + z.
        const double z = q * kExp700 * std::exp(t - 700);
        return z < 1e300 ? std::log1p(z) : t + std::log(q);
    }
    const double z = q * std::expm1(t);
    return z > -0.5 ? std::log1p(z) : std::log((1 - q) + q * std::exp(t));
}

// Returns the inverse, t = ln((e^y - 1 + q)/q), which is -inf for y <= ln(1 - q). The result differs by at most 2^-50
// |t| from the inverse at some y', where |y' - y| <= 2^-50 |y|.
TIGHTDP_HD inline double sampled_loss_inverse(double y, double q) noexcept {
    if (q == 1) return y;
    if (y > 1) return y + std::log1p((q - 1) * std::exp(-y)) - std::log(q);
    const double ratio = std::expm1(y) / q;
    if (ratio > 1e300) return std::log(std::expm1(y)) - std::log(q);
    if (ratio > -0.5) return std::log1p(ratio);
    // e^y - (1 - q) is computed in the form whose terms are smaller, because this form loses fewer digits.
    const double left = q > 0.5 && y < -0.5 ? std::exp(y) - (1 - q) : std::expm1(y) + q;
    return left > 0 ? std::log(left / q) : -HUGE_VAL;
}

}  // namespace tightdp
