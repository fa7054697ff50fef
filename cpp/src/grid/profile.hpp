// A composed law as a privacy profile: delta at the points of its lattice, epsilon by inversion between them
// (docs/theory/grid.md, sections 5.3 and 5.4).
#pragma once

#include <cmath>
#include <vector>

#include "compose.hpp"

namespace tightdp::grid {

// What lies beyond one end of the window. With x counted from the anchor, logarithms of E[e^{(tilt + exponent) x};
// finite].
struct Tail {
    TailExponents::Each exponents{}, moments{};
    bool some = false;  // whether anything lies there

    // The least of bounds exponent by exponent: ln of a moment less (tilt + exponent) at.
    double least(double tilt, double at) const;
};

// What the window of a composition leaves out or moves.
struct Outside {
    Tail right, left;
    double last = HUGE_VAL;  // index of the largest loss
};

// a + b, which nearly cancel, of two logarithms: rounded up. Also where one is -infinity.
inline double up(double a, double b) {
    return a == -HUGE_VAL ? a : a + b + 1e-9 + 8 * kUnitRoundoff * (std::abs(a) + std::abs(b));
}

// 2-norm of the kernel e^{-tilt t} (1 - e^{-t}) over so many points t = h, 2h, ..., rounded up.
double kernel_norm(double tilt, double h, double points);

// Curve of one side. In units of e^{log_scale - tilt (x_j - anchor)}, delta(x_j) without the mass at infinity
// is value[j] up to a relative error, an absolute one, and what Outside says.
struct Profile {
    double anchor, h, tilt, log_scale;
    std::int64_t first;
    std::vector<double> value;
    double absolute, relative;
    Outside outside;

    Profile(const Inexact& law, const Outside& outside, double anchor, double h, double tilt);

    double at(std::size_t j) const { return anchor + static_cast<double>(first + static_cast<std::int64_t>(j)) * h; }

    // What the window may hide from the upper curve or have added to the lower one.
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
