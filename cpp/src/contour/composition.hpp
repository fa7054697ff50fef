// A composition of Gaussian mechanisms with and without Poisson sampling, and the dominating pair of one step.
#pragma once

#include <span>

#include "tightdp/config.hpp"

namespace tightdp::contour {

// The change of one record, which decides the dominating pair (P, Q) of one step. The privacy profile of this pair is
// the largest over all pairs of data sets that differ by this change. Let N be the normal distribution with mean 0 and
// variance sigma^2, and let N' be N shifted by 1. With the mixture (1-q) N + q N', the pair is (mixture, N) for
// "remove" and (N, mixture) for "add". The pair for "replace" consists of the two mixtures with the shifts 1 and -1
// (docs/theory/contour.md, section 8).
enum class Direction { remove, add, replace };

TIGHTDP_HD constexpr Direction contour_composition_direction(bool add) noexcept {
    return add ? Direction::add : Direction::remove;
}

// The parameters of the dominating pair of one step.
struct Pair {
    double sigma;  // noise multiplier, > 0
    double q;      // sampling probability, in (0, 1)
    Direction direction = Direction::remove;

    TIGHTDP_HD constexpr bool is_contour_add() const noexcept { return direction == Direction::add; }
    TIGHTDP_HD constexpr bool is_contour_replace() const noexcept { return direction == Direction::replace; }
    // Returns the exponent beta of the likelihood ratio W(u) in the integrand of M(c) (contour/mgf/quadrature.hpp). M
    // is the moment generating function of the privacy loss. The integrand for "replace" has two likelihood ratios, so
    // this function does not apply to it.
    TIGHTDP_HD constexpr double contour_composition_weight_power(double c) const noexcept { return is_contour_add() ? -c : 1 + c; }
};

// Gaussian mechanisms on Poisson samples: `count` steps with the same parameters.
struct Sampled {
    double sigma;  // noise multiplier, > 0
    double q;      // sampling probability, in (0, 1)
    double count;  // integer >= 1
};

struct Composition {
    std::span<const Sampled> sampled;
    double gaussian_mu2;  // sum of count / sigma^2 over the Gaussian mechanisms without sampling ("plain"), >= 0
    Direction direction;
};

}  // namespace tightdp::contour
