// Two standard normals from 128 random bits (Box and Muller 1958), the same bits on every machine.
//
// With U, V uniform on {0, ..., 2^64 - 1}, u = (U + 1/2)/2^64 and v = (V + 1/2)/2^64, the pair is
//     sqrt(-2 ln u) (cos 2 pi v, sin 2 pi v),
// so the tail is reached out to sqrt(2 * 65 ln 2) = 9.49 and the radius is as fine near 0 as far out. double
// and float approximate the same real pair: relative error <= 4 ulp each (measured: docs/theory/noise.md,
// section 2).
//
// Only +, -, *, /, sqrt and integer operations, each correctly rounded, and no fused multiply-add: compile
// without contraction (.exact.simd.cpp on the host, --fmad=false on the device) and every backend returns the
// same bits. Branch-free, so it vectorises. Coefficients: tests/reference/polynomials.py.
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

// The polynomial with these coefficients, that of the highest power first.
template <class Real, class... Lower>
TIGHTDP_FORMULA Real horner(Real x, Real highest, Lower... lower) noexcept {
    ((highest = highest * x + lower), ...);
    return highest;
}

// (log((1+s)/(1-s)) - 2s)/s^3 in z = s^2 on [0, .0295]; sin(2 pi x)/x and (cos(2 pi x) - 1)/x^2 in x^2 on [0,
// 1/64].
template <class Real>
struct Coefficients;

template <>
struct Coefficients<double> {
    using Bits = std::uint64_t;
    static constexpr int kMantissa = 52;
    static constexpr Bits kOne = 0x3ff0000000000000u;
    static constexpr Bits kSqrtHalf = 0x3fe6a09e667f3bcdu;
    static constexpr Bits kIntegerBits = 0x4330000000000000u;  // 2^52: an integer or-ed in is added exactly
    static constexpr double kInteger = 0x1p52;
    // ln 2 in two parts, the first of 42 bits: its product with an exponent is exact.
    static constexpr double kLn2High = 0x1.62e42fefa3800p-1, kLn2Low = 5.4979230187083712e-14;

    TIGHTDP_FORMULA static double log_tail(double z) noexcept {
        return horner(z, 0.14616449685043406, 0.15331721600556041, 0.18182889125261722, 0.2222221113479508,
                      0.28571428625975485, 0.39999999999899504, 0.66666666666666697);
    }
    TIGHTDP_FORMULA static double sin_turn(double y) noexcept {
        return horner(y, 3.7808689593022955, -15.093804209987114, 42.058685020160894, -76.705859704274551,
                      81.605249275948035, -41.341702240399636, 6.2831853071795865);
    }
    TIGHTDP_FORMULA static double cos_turn(double y) noexcept {
        return horner(y, -1.6990343940660636, 7.9032069115696784, -26.426253275854721, 60.244641352702009,
                      -85.456817206643804, 64.939394022668243, -19.739208802178717);
    }
};

template <>
struct Coefficients<float> {
    using Bits = std::uint32_t;
    static constexpr int kMantissa = 23;
    static constexpr Bits kOne = 0x3f800000u;
    static constexpr Bits kSqrtHalf = 0x3f3504f3u;
    static constexpr Bits kIntegerBits = 0x4b000000u;  // 2^23
    static constexpr float kInteger = 0x1p23f;
    static constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 1.42860682e-6f;

    TIGHTDP_FORMULA static float log_tail(float z) noexcept {
        return horner(z, 0.295799494f, 0.399887806f, 0.66666685f);
    }
    TIGHTDP_FORMULA static float sin_turn(float y) noexcept {
        return horner(y, -75.4016127f, 81.5925429f, -41.3416626f, 6.28318529f);
    }
    TIGHTDP_FORMULA static float cos_turn(float y) noexcept {
        return horner(y, 59.424106f, -85.4488201f, 64.9393691f, -19.7392088f);
    }
};

template <class To, class From>
TIGHTDP_FORMULA To reinterpret(From x) noexcept {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}

TIGHTDP_FORMULA double root(double x) noexcept {
    return ::sqrt(x);
}
TIGHTDP_FORMULA float root(float x) noexcept {
    return ::sqrtf(x);
}

}  // namespace detail

// -2 ln((U + 1/2)/2^64), U = 2^32 high + low: from 0x1p-64 to 90.2, relative error <= 3 ulp.
template <class Real>
TIGHTDP_FORMULA Real minus_two_log_uniform(std::uint32_t high, std::uint32_t low) noexcept {
    using C = detail::Coefficients<Real>;
    using Bits = typename C::Bits;
    constexpr Real two32 = 0x1p32f, two_64 = 0x1p-64f, half = 0.5f;
    const Real f = static_cast<Real>(high) * two32 + (static_cast<Real>(low) + half);
    // 2^64 - 1 - U where u >= 1/2. An exclusive or with a mask, since GCC 12's AVX-512 for ~x waits for the
    // register that it overwrites, which serialises the loop.
    const std::int32_t top = static_cast<std::int32_t>(high) >> 31;
    const std::uint32_t complement_low = low ^ static_cast<std::uint32_t>(top);
    const Real complement = static_cast<Real>(static_cast<std::int32_t>(high) ^ top) * two32 +
                            (static_cast<Real>(complement_low) + half);
    // f = 2^k m with m in [sqrt(1/2), sqrt(2)).
    const Bits shifted = detail::reinterpret<Bits>(f) + (C::kOne - C::kSqrtHalf);
    const Bits exponent = shifted >> C::kMantissa;
    const Real m = detail::reinterpret<Real>((shifted & ((Bits{1} << C::kMantissa) - 1)) + C::kSqrtHalf);
    const Real bias = C::kInteger + static_cast<Real>((C::kOne >> C::kMantissa) + 64);
    const Real k = detail::reinterpret<Real>(exponent | C::kIntegerBits) - bias;
    // ln m = log1p(t). Near u = 1 the distance to 1 comes from the bits themselves, without cancellation.
    const Real t = k == 0 ? -complement * two_64 : m - 1;
    const Real s = t / (2 + t);
    const Real z = s * s;
    const Real hfsq = half * t * t;
    const Real tail = z * C::log_tail(z);
    const Real log_u = k * C::kLn2High - ((hfsq - (s * (hfsq + tail) + k * C::kLn2Low)) - t);
    return -2 * log_u;
}

// (cos, sin) of the angle of (V + 1/2)/2^64 turns, V = 2^32 high + low. Relative error <= 3 ulp of each.
template <class Real>
TIGHTDP_FORMULA NormalPair<Real> cos_sin_uniform(std::uint32_t high, std::uint32_t low) noexcept {
    using C = detail::Coefficients<Real>;
    using Bits = typename C::Bits;
    constexpr Real two32 = 0x1p32f, two_64 = 0x1p-64f, half = 0.5f;
    // Nearest quarter turn, then what is left, in [-1/8, 1/8) of a turn: exact on the integers.
    const std::uint32_t quarter = (high + (1u << 29)) >> 30;
    const auto rest = static_cast<std::int32_t>(high - (quarter << 30));
    // The angle is kept as sign and magnitude (-(R + 1/2) = ~R + 1/2 on the integers), so that two floats never cancel.
    const std::int32_t sign = rest >> 31;
    const std::uint32_t magnitude_low = low ^ static_cast<std::uint32_t>(sign);
    const Real x =
        (static_cast<Real>(rest ^ sign) * two32 + (static_cast<Real>(magnitude_low) + half)) * two_64;
    const Real y = x * x;
    constexpr int top = 8 * sizeof(Bits) - 1;
    const Real s = detail::reinterpret<Real>(detail::reinterpret<Bits>(x * C::sin_turn(y)) ^
                                             static_cast<Bits>(sign) << top);
    const Real c = 1 + y * C::cos_turn(y);
    // Quarter 0: (c, s), 1: (-s, c), 2: (-c, -s), 3: (s, -c).
    const bool odd = (quarter & 1) != 0;
    const Bits cos_sign = static_cast<Bits>((quarter + 1) & 2) << (top - 1);
    const Bits sin_sign = static_cast<Bits>(quarter & 2) << (top - 1);
    return {detail::reinterpret<Real>(detail::reinterpret<Bits>(odd ? s : c) ^ cos_sign),
            detail::reinterpret<Real>(detail::reinterpret<Bits>(odd ? c : s) ^ sin_sign)};
}

// words[0], words[1]: U, high word first; words[2], words[3]: V.
template <class Real>
TIGHTDP_FORMULA NormalPair<Real> normal_pair(std::uint32_t w0, std::uint32_t w1, std::uint32_t w2,
                                             std::uint32_t w3) noexcept {
    const Real radius = detail::root(minus_two_log_uniform<Real>(w0, w1));
    const NormalPair<Real> turn = cos_sin_uniform<Real>(w2, w3);
    return {radius * turn.cosine, radius * turn.sine};
}

}  // namespace tightdp::random
