// Exact samplers of the discrete Laplace and discrete Gaussian distributions (Canonne, Kamath and Steinke
// 2020, algorithms 2 and 3). Integers only; proofs in docs/theory/noise.md, section 4.
#pragma once

#include "bernoulli.hpp"

namespace tightdp::exact {

// The largest draw, in scales: a larger one is drawn again. This bounds all integers, and changes the distribution by
// a total variation of exp(-1024) < 2^-1477.
inline constexpr std::uint64_t kMostUnits = 1024;

// P(n) proportional to exp(-|n| s/t): scale t/s, with 1 <= t < 2^62, 1 <= s < 2^64 and t/s <= 2^50.
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
        // u + t v is geometric with ratio exp(-1/t); a division makes that exp(-s/t).
        const Uint128 magnitude = (static_cast<Uint128>(v) * p.t + u) / p.s;
        const bool negative = words.next_bit();
        if (negative && magnitude == 0) continue;  // zero once, not twice
        const auto n = static_cast<std::int64_t>(magnitude);
        return negative ? -n : n;
    }
}

// sigma^2 = numerator / denominator. A discrete Laplace of scale t = floor(sigma) + 1 is accepted with
// probability exp(-(|y| - sigma^2/t)^2 / (2 sigma^2)) = exp(-(|y| t D - N)^2 / (2 N D t^2)).
template <class Int>
struct GaussianParameters {
    Int numerator;
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
