// Mills' ratio R(x) and its slope S(x),
//     R(x) = (1 - Phi(x)) / phi(x) = e^{x^2/2} int_x^inf e^{-t^2/2} dt,   S(x) = -R'(x) = 1 - x R(x),
// where Phi and phi are the distribution function and the density of N(0, 1).
//
// All functions of normal tails are computed from R and S, because R and S do not underflow and are computed without
// cancellation (docs/theory/special.md, section 1).
#pragma once

#include "tightdp/config.hpp"

namespace tightdp {

// The coefficients of a polynomial, lowest power first. The functions below copy a constant of this type into a local
// constant, so that device code can use the coefficients too.
template <int N>
struct Coefficients {
    double c[N];
    static constexpr int size = N;
};

// Polynomials in y = (x - 5)/(x + 5) for (1 + x) R(x) and for (1 + 1.5 x + x^2) S(x). The polynomials interpolate these
// functions at Chebyshev nodes (tools/fit_mills.py). With the coefficients as stored, their relative errors are at most
// 2^-54 for R and 7/8 2^-53 for S (docs/theory/special.md, section 1).
inline constexpr double kMillsCenter = 5.0;
inline constexpr Coefficients<26> kMillsRatio{
    {0x1.28273b50efa76p+0,   -0x1.d5fd8ffd0f1a0p-3, 0x1.3e97eaf5f2eebp-4,   0x1.9ac85788f390ap-6,
     -0x1.0f103e712d21bp-4,  0x1.f7d96e0da43f0p-5,  -0x1.37838b3a64d92p-5,  0x1.0bd973a95e0f4p-6,
     -0x1.1355f47c225d5p-8,  0x1.47abe0b70f6b2p-16, 0x1.df3ec3feed310p-12,  -0x1.19cde76c0bb75p-13,
     -0x1.a02a9fea03a1ep-16, 0x1.7d07d3f432045p-16, -0x1.7c9e15f97674ap-23, -0x1.b854947c65fa8p-19,
     0x1.59b8bbb44c063p-22,  0x1.0ad883f19b57fp-21, -0x1.2170b086b5aedp-24, -0x1.628091b0a32e3p-24,
     0x1.5a9c8b65b21dcp-27,  0x1.e609feea58703p-27, -0x1.2aa94df93268dp-30, -0x1.1f0d7de64dc5ap-29,
     0x1.15e7260ba8015p-34,  0x1.8e4af6f0186e0p-33}};
inline constexpr Coefficients<28> kMillsSlope{
    {0x1.346372c1ddaa4p+0,   -0x1.c9387e0581dfep-3,  -0x1.716c8139ae6c1p-4, 0x1.e29d772c11009p-3,
     -0x1.8f0e2f6398ab0p-3,  0x1.16021f8ea1fe1p-4,   0x1.1362b96b91c24p-5,  -0x1.0878b6065f778p-4,
     0x1.78542c17174a1p-5,   -0x1.208a11904d611p-6,  0x1.9d9120e20aee8p-10, 0x1.06da8510fbb46p-9,
     -0x1.c7fa6d0db22c3p-11, -0x1.80a3c62b3d4edp-14, 0x1.4eaf31f566024p-13, -0x1.60a73defaf221p-17,
     -0x1.b62b46c5abbd8p-16, 0x1.11911cb762518p-18,  0x1.2ec39a07f4770p-18, -0x1.c99d6e3093fcap-21,
     -0x1.c6108c79af376p-21, 0x1.2a77f0a27782ep-23,  0x1.545f5b146606bp-23, -0x1.1f88648d2abd3p-26,
     -0x1.a42de5ac7532cp-26, 0x1.2a38a7cc809e0p-30,  0x1.24bf923152135p-29, 0x1.fa389f4b83f15p-38}};

// Returns the value of the polynomial p at y, by Horner's rule.
template <int N>
TIGHTDP_HD constexpr double horner(const Coefficients<N>& p, double y) noexcept {
    double sum = p.c[N - 1];
    for (int i = N - 2; i >= 0; --i) sum = sum * y + p.c[i];
    return sum;
}

// Returns R(x) for x in [0, 1e150], with a relative error of at most 6 * 2^-53 (docs/theory/special.md, section 1).
TIGHTDP_HD inline double mills_ratio(double x) noexcept {
    constexpr auto p = kMillsRatio;
    return horner(p, (x - kMillsCenter) / (x + kMillsCenter)) / (1 + x);
}

// Returns S(x) for x in [0, 1e150], with a relative error of at most 10 * 2^-53.
TIGHTDP_HD inline double mills_slope(double x) noexcept {
    constexpr auto p = kMillsSlope;
    return horner(p, (x - kMillsCenter) / (x + kMillsCenter)) / (1 + x * (1.5 + x));
}

}  // namespace tightdp
