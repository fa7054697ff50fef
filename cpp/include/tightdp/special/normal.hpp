// The normal density, distribution function and its logarithm, to a few units of roundoff far into the tails.
#pragma once

#include <cmath>

#include "mills.hpp"
#include "tightdp/config.hpp"

namespace tightdp {

inline constexpr double kInvSqrt2 = 0.70710678118654752440;
inline constexpr double kInvSqrt2Pi = 0.39894228040143267794;
inline constexpr double kLogSqrt2Pi = 0.91893853320467274178;

// e^{-(x + rest)^2 / 2} for |rest| <= 2^-52 |x|: the argument to more than double precision.
// Error at most 6 u relatively while the result is a normal number; 0 beyond |x| = 38.6.
//
// x is cut after 2^-20, so that the square of the front part is exact; what is left changes the exponent by
// d, and |d| <= 2e-5 wherever the result is not zero, so four terms of e^{-d} are enough.
TIGHTDP_HD inline double exp_half_square(double x, double rest = 0) noexcept {
    x = std::fabs(x) == x ? x : (rest = -rest, -x);
    if (!(x < 40)) return x >= 40 ? 0.0 : x;  // NaN passes through
    const double front = std::floor(x * 0x1p20) * 0x1p-20;
    const double d = (x - front) * (0.5 * (x + front)) + x * rest;
    return std::exp(-0.5 * front * front) * (1 - d * (1 - d * (0.5 - d * (1.0 / 6))));
}

// phi(x). Error at most 8 u relatively in the normal range.
TIGHTDP_HD inline double normal_density(double x) noexcept {
    return kInvSqrt2Pi * exp_half_square(x);
}

// 1 - Phi(x) for x >= 0. Error at most 16 u relatively in the normal range.
TIGHTDP_HD inline double normal_tail(double x) noexcept {
    return normal_density(x) * mills_ratio(x);
}

// Phi(x). Error at most 16 u relatively in the normal range; 0 below -38.5.
TIGHTDP_HD inline double ndtr(double x) noexcept {
    if (std::fabs(x) > 1e100) return x > 0 ? 1.0 : 0.0;
    return x > 0 ? 1 - normal_tail(x) : normal_tail(-x);
}

// ln Phi(x) for |x| <= 1e150; -inf and 0 at the infinities. Error at most 20 u relatively.
TIGHTDP_HD inline double log_ndtr(double x) noexcept {
    if (x > 0) return x > 40 ? -0.0 : std::log1p(-normal_tail(x));
    if (x < -1e150) return -HUGE_VAL;
    return std::log(mills_ratio(-x) * kInvSqrt2Pi) - 0.5 * x * x;
}

}  // namespace tightdp
