// The density phi and the distribution function Phi of N(0, 1), and ln Phi, with small relative errors far into the
// tails.
#pragma once

#include <cmath>

#include "mills.hpp"
#include "tightdp/config.hpp"

namespace tightdp {

inline constexpr double kInvSqrt2 = 0.70710678118654752440;
inline constexpr double kInvSqrt2Pi = 0.39894228040143267794;
inline constexpr double kLogSqrt2Pi = 0.91893853320467274178;

// Returns e^{-(x + rest)^2 / 2} for |rest| <= 2^-52 |x|. The sum x + rest is an argument with more than double
// precision. The relative error is at most 6 u unless the result is subnormal, where u = 2^-53 in this file. The result
// is 0 beyond |x| = 38.6.
//
// The binary digits of x down to 2^-20 form `front`, whose square is exact. The remaining digits of x + rest lower the
// exponent -front^2 / 2 by d, up to a negligible rest^2 / 2. |d| <= 4e-5 wherever the result is not zero, so four terms
// of the series of e^{-d} are enough.
TIGHTDP_HD inline double exp_half_square(double x, double rest = 0) noexcept {
    x = std::fabs(x) == x ? x : (rest = -rest, -x);
    if (!(x < 40)) return x >= 40 ? 0.0 : x;  // NaN passes through
    const double front = std::floor(x * 0x1p20) * 0x1p-20;
    const double d = (x - front) * (0.5 * (x + front)) + x * rest;
    return std::exp(-0.5 * front * front) * (1 - d * (1 - d * (0.5 - d * (1.0 / 6))));
}

// Returns phi(x). The relative error is at most 8 u unless the result is subnormal.
TIGHTDP_HD inline double normal_density(double x) noexcept {
    return kInvSqrt2Pi * exp_half_square(x);
}

// Returns 1 - Phi(x) for x >= 0. The relative error is at most 16 u unless the result is subnormal.
TIGHTDP_HD inline double normal_tail(double x) noexcept {
    return normal_density(x) * mills_ratio(x);
}

// Returns Phi(x). The relative error is at most 16 u unless the result is subnormal. The result is 0 below -38.5.
TIGHTDP_HD inline double ndtr(double x) noexcept {
    if (std::fabs(x) > 1e100) return x > 0 ? 1.0 : 0.0;
    return x > 0 ? 1 - normal_tail(x) : normal_tail(-x);
}

// Returns ln Phi(x) for |x| <= 1e150, with a relative error of at most 20 u. The result is -inf at -inf and 0 at +inf.
TIGHTDP_HD inline double log_ndtr(double x) noexcept {
    if (x > 0) return x > 40 ? -0.0 : std::log1p(-normal_tail(x));
    if (x < -1e150) return -HUGE_VAL;
    return std::log(mills_ratio(-x) * kInvSqrt2Pi) - 0.5 * x * x;
}

}  // namespace tightdp
