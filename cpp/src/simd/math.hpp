// Vector functions exp, expm1, log and e^{ix} - 1 without branches.
//
// The comment of each function states the largest relative error that was found in a comparison with values of 50
// digits (tests/accounting/numerics/test_simd_math.py). The error analyses of docs/theory/ assume kMathUlp = 4 units of
// 2^-53, which is larger than all of these errors. exp and expm1 of NaN are NaN.
#pragma once

#include "vec.hpp"

namespace tightdp::TIGHTDP_ISA {

inline constexpr double kMathUlp = 4.0;

// Adding 1.5 * 2^52 to a number rounds the number to an integer, which is then in the low bits of the sum.
inline constexpr double kRound = 6755399441055744.0;
inline constexpr double kLog2e = 1.4426950408889634074;
// ln 2 in two parts. The first part has 21 trailing zero bits, so that n * kLn2Hi is exact for |n| < 2^21.
inline constexpr double kLn2Hi = 0x1.62e42feep-1;
inline constexpr double kLn2Lo = 0x1.a39ef35793c76p-33;

// Returns 2^n from n_plus_round = n + kRound, for integers n in [-1022, 1023].
TIGHTDP_VINLINE Vec exp2_from_rounded(Vec n_plus_round) {
    return from_bits((bits(n_plus_round) + 1023) << 52);
}

// Returns T(r) = (e^r - 1 - r) / r^2 by the Taylor series of e^r up to r^13 / 13!. For |r| <= .347, the error of
// r + r^2 T(r) is below 2^-56 |e^r - 1|. docs/theory/machine/series.sollya checks this error, and the errors of the
// other series of this file.
TIGHTDP_VINLINE Vec vec_taylor_of_exp(Vec r) {
    return horner(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,
                  1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5);
}

struct ExpParts {
    Vec scale;  // 2^n
    Vec m1;     // e^r - 1, |r| <= ln(2)/2
};

// Splits e^x into 2^n e^r. Precondition: x is in [-708, 709].
TIGHTDP_VINLINE ExpParts exp_parts(Vec x) {
    const Vec shifted = x * kLog2e + kRound;
    const Vec n = shifted - kRound;
    const Vec r = (x - n * kLn2Hi) - n * kLn2Lo;
    return {exp2_from_rounded(shifted), r + r * r * vec_taylor_of_exp(r)};
}

// Limits x to [-708, 709]. A NaN stays NaN, since each comparison with NaN is false.
TIGHTDP_VINLINE Vec clamp_exp(Vec x) { return min(splat(709.0), max(splat(-708.0), x)); }

// Returns e^x. The relative error is at most 1.4 * 2^-53 for x in [-708, 709]. The result is 0 for x < -708, and e^709
// for x > 709.
TIGHTDP_VINLINE Vec exp(Vec x) {
    const ExpParts e = exp_parts(clamp_exp(x));
    return select(x < -708.0, splat(0.0), e.scale + e.scale * e.m1);
}

// Returns e^x - 1. The relative error is at most 2.3 * 2^-53 for x in [-708, 709].
TIGHTDP_VINLINE Vec expm1(Vec x) {
    const ExpParts e = exp_parts(clamp_exp(x));
    return (e.scale - 1.0) + e.scale * e.m1;
}

// Returns ln(y) + quotient for a positive normal number y and |quotient| <= 2^-53. The quotient must also be at most
// .6 |y - 1|, unless y = 1. A larger quotient whose sign is opposite to that of ln(y) would cancel digits of ln(y). The
// relative error is at most 1.3 * 2^-53 if the quotient is 0.
TIGHTDP_VINLINE Vec vec_log_plus(Vec y, Vec quotient) {
    // y = 2^e m with m in [sqrt(1/2), sqrt(2)).
    const Mask shift = bits(y) - 0x3fe6a09e667f3bcdLL;
    const Mask e_bits = shift >> 52;
    const Vec m = from_bits(bits(y) - (e_bits << 52));
    const Vec e = from_bits(e_bits + bits(splat(kRound))) - kRound;
    // ln m = 2 atanh(s) with s = f / (2 + f), where f = m - 1 is exact.
    const Vec f = m - 1.0;
    const Vec s = f / (2.0 + f);
    const Vec z = s * s;
    // The Taylor series of atanh up to s^21. Since |s| <= .1716, the error is below 2^-57.
    const Vec p = z * horner(z, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0,
                             2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0);
    // ln m = f - f^2/2 + s (f^2/2 + p). The largest terms are either exact or multiplied by the small s.
    const Vec half = 0.5 * f * f;
    const Vec tail = s * (half + p) + (e * kLn2Lo + quotient);
    return e * kLn2Hi + (f - (half - tail));
}

// Returns ln(y) + correction / y, where y is the rounded sum of 1 and another number, and `correction` is the rounding
// error of this sum. Then |correction| <= |y - 1| / 2 unless y = 1, since y - 1 is a multiple of twice the largest
// rounding error.
TIGHTDP_VINLINE Vec vec_log_corrected(Vec y, Vec correction) {
    return vec_log_plus(y, correction / y);
}

TIGHTDP_VINLINE Vec log(Vec y) {
    return vec_log_plus(y, splat(0.0));
}

// Returns ln(1 + x) for x > -1. The relative error is at most 1.4 * 2^-53.
TIGHTDP_VINLINE Vec log1p(Vec x) {
    const Vec y = 1.0 + x;
    const Vec big = y - x;  // 1, up to the rounding error of y
    // The rounding error of y is computed by exact differences. The formula depends on which of 1 and x is larger
    // (Dekker).
    const Vec correction = select(x < 1.0, x - (y - 1.0), 1.0 - big);
    return vec_log_corrected(y, correction);
}

struct Cis {
    Vec re;  // cos(x) - 1
    Vec im;  // sin(x)
};

// Returns e^{ix} - 1 for |x| < 1e5. The error is at most 2 * 2^-53 * |e^{ix} - 1| for |x| <= pi/4, and at most 2.8 *
// 2^-53 for larger |x|. For a larger |x|, a multiple of pi/2 is first subtracted from x. The number pi/2 is split into
// three parts for this, so that the error of the difference is below 2^-83 |x|.
TIGHTDP_VINLINE Cis vec_cis_minus_one(Vec x) {
    const Vec shifted = x * 0.63661977236758134308 + kRound;
    const Vec n = shifted - kRound;
    Vec r = x - n * 0x1.921fb544p+0;
    r = r - n * 0x1.0b4611a6p-34;
    r = r - n * 0x1.3198a2e037073p-69;
    const Vec z = r * r;
    // Taylor series for |r| <= pi/4: sin up to r^17, and cos - 1 up to r^18. The errors are below 2^-57.
    const Vec sn = r + r * z * horner(z, 1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0,
                                      -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0);
    const Vec cm = z * horner(z, -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0, -1.0 / 87178291200.0,
                              1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5);
    // The two low bits of `shifted` are the quadrant n mod 4. With c = cos r and s = sin r, (cos x, sin x) is (c, s),
    // (-s, c), (-c, -s) or (s, -c) in the quadrants 0 to 3.
    const Mask quadrant = bits(shifted) & 3;
    const Mask odd = -(quadrant & 1);
    const Mask negate_cos = (Mask)(((quadrant + 1) & 2) == 2);
    const Mask negate_sin = (Mask)((quadrant & 2) == 2);
    const Vec c = select(odd, sn, 1.0 + cm);
    const Vec s = select(odd, 1.0 + cm, sn);
    const Vec re = select(negate_cos, -c, c) - 1.0;
    return {select((Mask)(quadrant == 0), cm, re), select(negate_sin, -s, s)};
}

}  // namespace tightdp::TIGHTDP_ISA
