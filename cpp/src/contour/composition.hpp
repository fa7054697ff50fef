// A composition of Poisson-subsampled and plain Gaussians, all in one direction, and the dominating pair of one step.
#pragma once

#include <span>

#include "tightdp/config.hpp"

namespace tightdp::contour {

// The mixture against N ("remove"), N against it ("add"), or both of the mixtures with the contributions 1 and -1
// against each other ("replace", docs/theory/contour.md, section 8).
enum class Direction { remove, add, replace };

TIGHTDP_HD constexpr Direction add_or_remove(bool add) noexcept {
    return add ? Direction::add : Direction::remove;
}

struct Pair {
    double sigma;  // noise multiplier, > 0
    double q;      // sampling probability, in (0, 1)
    Direction direction = Direction::remove;

    TIGHTDP_HD constexpr bool add() const noexcept { return direction == Direction::add; }
    TIGHTDP_HD constexpr bool replace() const noexcept { return direction == Direction::replace; }
    // The power of the weight W in the integrand at the abscissa c; not of a replaced record, whose weights are two.
    TIGHTDP_HD constexpr double beta(double c) const noexcept { return add() ? -c : 1 + c; }
};

struct Sampled {
    double sigma;  // noise multiplier, > 0
    double q;      // sampling probability, in (0, 1)
    double count;  // integer >= 1
};

struct Composition {
    std::span<const Sampled> sampled;
    double gaussian_mu2;  // sum of count / sigma^2 over plain Gaussians, >= 0
    Direction direction;
};

}  // namespace tightdp::contour
