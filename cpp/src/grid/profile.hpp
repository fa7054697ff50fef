// A composed law as a privacy profile: delta at the points of its lattice, epsilon by inversion between them
// (docs/theory/grid.md, sections 5.3 and 5.4).
#pragma once

#include <cmath>
#include <vector>

#include "compose.hpp"

namespace tightdp::grid {

// Moments that bound the mass beyond one end of the window: logarithms of E[e^{(tilt + exponent) x}; finite], with x
// counted from the anchor.
struct Tail {
    TailExponents::Each exponents{}, moments{};
    bool some = false;  // whether anything lies there

    // The least bound over the exponents: ln of a moment less (tilt + exponent) at.
    double least(double tilt, double at) const;
};

// The mass that the window of a composition leaves out or moves.
struct Outside {
    Tail right, left;
    double last = HUGE_VAL;  // index of the largest loss
};

// Sum of two logarithms a and b that nearly cancel, rounded up. Either may be -infinity.
inline double up(double a, double b) {
    return a == -HUGE_VAL ? a : a + b + 1e-9 + 8 * kUnitRoundoff * (std::abs(a) + std::abs(b));
}

// 2-norm of the kernel e^{-tilt t} (1 - e^{-t}) over the first `points` points t = h, 2h, ..., rounded up.
double kernel_norm(double tilt, double h, double points);

// The curve of one side. In units of e^{log_scale - tilt (x_j - anchor)}, delta(x_j) without the mass at infinity is
// value[j] up to a relative error, an absolute one, and the mass described by Outside.
struct Profile {
    double anchor, h, tilt, log_scale;
    std::int64_t first;
    std::vector<double> value;
    double absolute, relative;
    Outside outside;

    Profile(const Inexact& law, const Outside& outside, double anchor, double h, double tilt);

    double at(std::size_t j) const { return anchor + static_cast<double>(first + static_cast<std::int64_t>(j)) * h; }

    // Bound on the delta that the window may hide from the upper curve or have added to the lower one.
    double wrapping(double epsilon, bool upper) const;

    // Upper or lower bound on delta(x_j) without infinity; a lower one may be negative.
    double bound(std::size_t j, bool upper) const;

    // Upper or lower bound at any epsilon within the lattice, by the chord in e^epsilon.
    double bound_at(double epsilon, bool upper) const;

    // Bound on the epsilon at which delta without infinity falls to `target`: +-infinity where the lattice
    // does not tell.
    double invert(double target, bool upper) const;
};

}  // namespace tightdp::grid
