// Computes two standard normals from 128 random bits (Box and Muller 1958). All machines return the same results.
//
// Let U and V be uniform on {0, ..., 2^64 - 1}, u = (U + 1/2)/2^64 and v = (V + 1/2)/2^64. The pair of normals is
//     sqrt(-2 ln u) (cos 2 pi v, sin 2 pi v).
// The largest absolute value is sqrt(2 * 65 ln 2) = 9.49. Radii sqrt(-2 ln u) near 0 are as close to each other as
// larger ones. The functions for double and float approximate the same pair of real numbers. The relative error of each
// number is at most 4 ulp (measured: docs/theory/noise.md, section 2).
//
// The code uses only +, -, *, /, sqrt and integer operations, which are rounded in the same way everywhere. It must be
// compiled without contraction of a * b + c to fused multiply-adds: in a file *.exact.simd.cpp on the host, and with
// --fmad=false on a device (GPU). Then all machines return the same bits. The code has no branches, so that it
// vectorises. The coefficients are computed by tests/reference/polynomials.py.
#pragma once

#include <math.h>

#include <cstdint>

#include "../config.hpp"

namespace tightdp::random {

template <class Real>
struct NormalPair {
    Real cosine, sine;
};

namespace detail {

// Evaluates at x the polynomial with these coefficients, where the coefficient of the highest power comes first.
template <class Real, class... Lower>
TIGHTDP_FORMULA Real evaluate_normal_polynomial(Real x, Real highest, Lower... lower) noexcept {
    ((highest = highest * x + lower), ...);
    return highest;
}

// Constants of a floating-point type, which describe its bits: kMantissa is the number of stored bits of a significand,
// kOne has the bits of 1, and kSqrtHalf has the bits of sqrt(1/2). The functions normal_log_polynomial,
// normal_sin_polynomial and normal_cos_polynomial are polynomials. normal_log_polynomial(z) approximates
// (log((1+s)/(1-s)) - 2s)/s^3 for z = s^2 in [0, .0295]. For y = x^2 in [0, 1/64], normal_sin_polynomial(y)
// approximates sin(2 pi x)/x, and normal_cos_polynomial(y) approximates (cos(2 pi x) - 1)/x^2.
template <class Real>
struct Coefficients;

template <>
struct Coefficients<double> {
    using Bits = std::uint64_t;
    static constexpr int kMantissa = 52;
    static constexpr Bits kOne = 0x3ff0000000000000u;
    static constexpr Bits kSqrtHalf = 0x3fe6a09e667f3bcdu;
    // Bits of the double 2^52. The bitwise or of these bits and an integer i < 2^52 is the double 2^52 + i.
    static constexpr Bits kIntegerBits = 0x4330000000000000u;
    static constexpr double kInteger = 0x1p52;
    // ln 2 in two parts. The first part has 42 bits, so that its product with an exponent is exact.
    static constexpr double kLn2High = 0x1.62e42fefa3800p-1, kLn2Low = 5.4979230187083712e-14;

    TIGHTDP_FORMULA static double normal_log_polynomial(double z) noexcept {
        return evaluate_normal_polynomial(z, 0.14616449685043406, 0.15331721600556041, 0.18182889125261722,
                                          0.2222221113479508, 0.28571428625975485, 0.39999999999899504,
                                          0.66666666666666697);
    }
    TIGHTDP_FORMULA static double normal_sin_polynomial(double y) noexcept {
        return evaluate_normal_polynomial(y, 3.7808689593022955, -15.093804209987114, 42.058685020160894,
                                          -76.705859704274551, 81.605249275948035, -41.341702240399636,
                                          6.2831853071795865);
    }
    TIGHTDP_FORMULA static double normal_cos_polynomial(double y) noexcept {
        return evaluate_normal_polynomial(y, -1.6990343940660636, 7.9032069115696784, -26.426253275854721,
                                          60.244641352702009, -85.456817206643804, 64.939394022668243,
                                          -19.739208802178717);
    }
};

template <>
struct Coefficients<float> {
    using Bits = std::uint32_t;
    static constexpr int kMantissa = 23;
    static constexpr Bits kOne = 0x3f800000u;
    static constexpr Bits kSqrtHalf = 0x3f3504f3u;
    static constexpr Bits kIntegerBits = 0x4b000000u;  // bits of the float 2^23
    static constexpr float kInteger = 0x1p23f;
    static constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 1.42860682e-6f;

    TIGHTDP_FORMULA static float normal_log_polynomial(float z) noexcept {
        return evaluate_normal_polynomial(z, 0.295799494f, 0.399887806f, 0.66666685f);
    }
    TIGHTDP_FORMULA static float normal_sin_polynomial(float y) noexcept {
        return evaluate_normal_polynomial(y, -75.4016127f, 81.5925429f, -41.3416626f, 6.28318529f);
    }
    TIGHTDP_FORMULA static float normal_cos_polynomial(float y) noexcept {
        return evaluate_normal_polynomial(y, 59.424106f, -85.4488201f, 64.9393691f, -19.7392088f);
    }
};

template <class To, class From>
TIGHTDP_FORMULA To reinterpret_normal_bits(From x) noexcept {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}

TIGHTDP_FORMULA double normal_root(double x) noexcept {
    return ::sqrt(x);
}
TIGHTDP_FORMULA float normal_root(float x) noexcept {
    return ::sqrtf(x);
}

}  // namespace detail

// Returns -2 ln((U + 1/2)/2^64) for U = 2^32 high + low. The value is between 2^-64 and 90.2, and its relative error is
// at most 3 ulp. In the code, f = U + 1/2 = 2^64 u.
template <class Real>
TIGHTDP_FORMULA Real normal_radius_squared(std::uint32_t high, std::uint32_t low) noexcept {
    using C = detail::Coefficients<Real>;
    using Bits = typename C::Bits;
    constexpr Real two32 = 0x1p32f, two_64 = 0x1p-64f, half = 0.5f;
    const Real f = static_cast<Real>(high) * two32 + (static_cast<Real>(low) + half);
    // If u >= 1/2, `complement` is 2^64 - f, so that 1 - u = complement / 2^64. The bits of U are complemented by an
    // exclusive or with a mask. GCC 12 would compile ~x to AVX-512 code that waits for the register that it overwrites,
    // so that iterations of a caller's loop could not overlap.
    const std::int32_t top = static_cast<std::int32_t>(high) >> 31;
    const std::uint32_t complement_low = low ^ static_cast<std::uint32_t>(top);
    const Real complement = static_cast<Real>(static_cast<std::int32_t>(high) ^ top) * two32 +
                            (static_cast<Real>(complement_low) + half);
    // Splits f into 2^(k + 64) m with m in [sqrt(1/2), sqrt(2)), so that u = 2^k m.
    const Bits shifted = detail::reinterpret_normal_bits<Bits>(f) + (C::kOne - C::kSqrtHalf);
    const Bits exponent = shifted >> C::kMantissa;
    const Real m = detail::reinterpret_normal_bits<Real>((shifted & ((Bits{1} << C::kMantissa) - 1)) + C::kSqrtHalf);
    const Real bias = C::kInteger + static_cast<Real>((C::kOne >> C::kMantissa) + 64);
    const Real k = detail::reinterpret_normal_bits<Real>(exponent | C::kIntegerBits) - bias;
    // ln m = log1p(t) = log((1 + s)/(1 - s)) for t = m - 1 and s = t/(2 + t). If u is near 1, t is computed from the
    // complement, so that no digits cancel.
    const Real t = k == 0 ? -complement * two_64 : m - 1;
    const Real s = t / (2 + t);
    const Real z = s * s;
    const Real half_square = half * t * t;
    const Real tail = z * C::normal_log_polynomial(z);
    const Real log_u = k * C::kLn2High - ((half_square - (s * (half_square + tail) + k * C::kLn2Low)) - t);
    return -2 * log_u;
}

// Returns the cosine and the sine of (V + 1/2)/2^64 turns for V = 2^32 high + low. The relative error of each is at
// most 3 ulp.
template <class Real>
TIGHTDP_FORMULA NormalPair<Real> normal_cos_sin(std::uint32_t high, std::uint32_t low) noexcept {
    using C = detail::Coefficients<Real>;
    using Bits = typename C::Bits;
    constexpr Real two32 = 0x1p32f, two_64 = 0x1p-64f, half = 0.5f;
    // Splits the angle into the nearest quarter turn and a small angle in [-1/8, 1/8) of a turn. The split of the
    // integers is exact.
    const std::uint32_t quarter = (high + (1u << 29)) >> 30;
    const auto rest = static_cast<std::int32_t>(high - (quarter << 30));
    // Keeps this angle as sign and magnitude, so that floats of opposite signs are never added. Let R be the integer
    // with the upper half `rest` and the lower half `low`. The angle is (R + 1/2)/2^64 of a turn, and -(R + 1/2) is
    // ~R + 1/2.
    const std::int32_t sign = rest >> 31;
    const std::uint32_t magnitude_low = low ^ static_cast<std::uint32_t>(sign);
    const Real x =
        (static_cast<Real>(rest ^ sign) * two32 + (static_cast<Real>(magnitude_low) + half)) * two_64;
    const Real y = x * x;
    constexpr int top = 8 * sizeof(Bits) - 1;
    const Real s = detail::reinterpret_normal_bits<Real>(
        detail::reinterpret_normal_bits<Bits>(x * C::normal_sin_polynomial(y)) ^ static_cast<Bits>(sign) << top);
    const Real c = 1 + y * C::normal_cos_polynomial(y);
    // (cos, sin) is (c, s) in quarter 0, (-s, c) in quarter 1, (-c, -s) in quarter 2, and (s, -c) in quarter 3.
    const bool odd = (quarter & 1) != 0;
    const Bits cos_sign = static_cast<Bits>((quarter + 1) & 2) << (top - 1);
    const Bits sin_sign = static_cast<Bits>(quarter & 2) << (top - 1);
    return {detail::reinterpret_normal_bits<Real>(detail::reinterpret_normal_bits<Bits>(odd ? s : c) ^ cos_sign),
            detail::reinterpret_normal_bits<Real>(detail::reinterpret_normal_bits<Bits>(odd ? c : s) ^ sin_sign)};
}

// Returns the pair of normals for U = 2^32 w0 + w1 and V = 2^32 w2 + w3.
template <class Real>
TIGHTDP_FORMULA NormalPair<Real> normal_pair(std::uint32_t w0, std::uint32_t w1, std::uint32_t w2,
                                             std::uint32_t w3) noexcept {
    const Real radius = detail::normal_root(normal_radius_squared<Real>(w0, w1));
    const NormalPair<Real> turn = normal_cos_sin<Real>(w2, w3);
    return {radius * turn.cosine, radius * turn.sine};
}

}  // namespace tightdp::random
