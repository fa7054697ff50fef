// Exact samplers of the discrete Laplace and discrete Gaussian distributions, which use integer arithmetic only
// (Canonne, Kamath and Steinke 2020, algorithms 2 and 3). The proofs are in docs/theory/noise.md, section 4.
#pragma once

#include "bernoulli.hpp"

namespace tightdp::exact {

// Largest magnitude of a draw, in units of the scale. Larger draws are rejected and drawn again. This limit bounds the
// size of all integers, and changes the distribution by a total variation distance of exp(-1024) < 2^-1477.
inline constexpr std::uint64_t kMostUnits = 1024;

// Parameters of the distribution with P(n) proportional to exp(-|n| s/t). The scale is t/s, where 1 <= t < 2^62,
// 1 <= s < 2^64 and t/s <= 2^50.
struct LaplaceParameters {
    std::uint64_t t, s;
};

template <class Words>
std::int64_t discrete_laplace(const LaplaceParameters& p, Words& words) {
    for (;;) {
        const std::uint64_t u = uniform_below(p.t, words);
        if (!bernoulli_exp_small(Uint128{u}, Uint128{p.t}, words)) continue;
        std::uint64_t v = 0;
        while (v < kMostUnits && bernoulli_exp_one(words)) ++v;
        if (v == kMostUnits) continue;
        // u + t v has a geometric distribution with P(n + 1)/P(n) = exp(-1/t). Dividing by s makes the ratio exp(-s/t).
        const Uint128 magnitude = (static_cast<Uint128>(v) * p.t + u) / p.s;
        const bool negative = words.draw_random_bit();
        if (negative && magnitude == 0) continue;  // otherwise 0 would be twice as likely as it should be
        const auto n = static_cast<std::int64_t>(magnitude);
        return negative ? -n : n;
    }
}

// Parameters of a discrete Gaussian with sigma^2 = N/D. A draw y from the discrete Laplace distribution with the scale
// t = floor(sigma) + 1 is accepted with the probability exp(-(|y| - sigma^2/t)^2 / (2 sigma^2)). This probability is
// exp(-(|y| t D - N)^2 / (2 N D t^2)).
template <class Int>
struct GaussianParameters {
    Int numerator;  // N
    std::uint64_t t;
    Int t_denominator;  // t D
    Int scale;          // 2 N D t^2

    GaussianParameters(const Int& n, const Int& d, std::uint64_t floor_sigma)
        : numerator(n),
          t(floor_sigma + 1),
          t_denominator(d * Int(t)),
          scale(Int(2) * n * t_denominator * Int(t)) {}
};

template <class Int, class Words>
std::int64_t discrete_gaussian(const GaussianParameters<Int>& p, Words& words) {
    const LaplaceParameters laplace{p.t, 1};
    for (;;) {
        const std::int64_t y = discrete_laplace(laplace, words);
        const Int x = Int(static_cast<std::uint64_t>(y < 0 ? -y : y)) * p.t_denominator;
        const Int difference = x >= p.numerator ? x - p.numerator : p.numerator - x;
        if (bernoulli_exp(difference * difference, p.scale, words)) return y;
    }
}

}  // namespace tightdp::exact
