// The privacy loss of one Poisson-subsampled Gaussian step and its inverse, without cancellation at small
// losses.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

inline constexpr double kExp700 = 1.0142320547350045e304;  // e^700

// y = ln(1 - q + q e^t), q in (0, 1]: at t = (x - 1/2)/s^2 the log ratio of (1-q) N(0, s^2) + q N(1, s^2) to
// N(0, s^2) at x. Increasing, above ln(1 - q). Error at most 8 u |y|. docs/theory/special.md, 5.
TIGHTDP_HD inline double sampled_loss(double t, double q) noexcept {
    if (q == 1) return t;
    if (t > 700) {  // e^t in two factors, as it may be no double; 1 - q + q e^t and 1 + q e^t are one number
        const double z = q * kExp700 * std::exp(t - 700);
        return z < 1e300 ? std::log1p(z) : t + std::log(q);
    }
    const double z = q * std::expm1(t);
    return z > -0.5 ? std::log1p(z) : std::log((1 - q) + q * std::exp(t));
}

// t = ln((e^y - 1 + q)/q), the inverse; -inf for y <= ln(1 - q).
// Backward error: the result is within 8 u |t| of the inverse at some y' with |y' - y| <= 8 u |y|.
TIGHTDP_HD inline double sampled_loss_inverse(double y, double q) noexcept {
    if (q == 1) return y;
    if (y > 1) return y + std::log1p((q - 1) * std::exp(-y)) - std::log(q);
    const double ratio = std::expm1(y) / q;
    if (ratio > 1e300) return std::log(std::expm1(y)) - std::log(q);
    if (ratio > -0.5) return std::log1p(ratio);
    // e^y - (1 - q) from whichever of its two forms has the smaller terms
    const double left = q > 0.5 && y < -0.5 ? std::exp(y) - (1 - q) : std::expm1(y) + q;
    return left > 0 ? std::log(left / q) : -HUGE_VAL;
}

}  // namespace tightdp
