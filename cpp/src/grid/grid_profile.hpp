// The privacy profile of a composed distribution: delta at the points of its lattice, and epsilon by inversion between
// them (docs/theory/grid.md, sections 5.3 and 5.4).
#pragma once

#include <cmath>
#include <vector>

#include "grid_spectra.hpp"

namespace tightdp::grid {

// Moments that bound the mass beyond one end of the window. The window is the range of lattice points that are stored.
// Each moment is the logarithm of E[e^{(tilt + exponent) x}] over the finite losses x, which are counted from the
// anchor. The lattice has a point at the anchor, and masses at losses y are multiplied by e^{tilt y}
// (grid_weights.hpp). The exponents are positive at the right end and negative at the left end (TailExponents in
// tilt_estimates.hpp).
struct Tail {
    TailExponents::Each exponents{}, moments{};
    bool some = false;  // whether any mass lies beyond that end

    // Returns ln of the smallest bound on the mass beyond `at`: the minimum over the exponents of
    // moment - (tilt + exponent) * at. Returns -infinity if no mass lies beyond that end.
    double bound_grid_tail(double tilt, double at) const;
};

// The mass that the window of a composition leaves out or moves to other points.
struct Outside {
    Tail right, left;
    double last = HUGE_VAL;  // index of the largest loss
};

// Returns the sum of two logarithms a and b that nearly cancel, rounded up. The sum is -infinity if `a` is.
inline double add_grid_logs_up(double a, double b) {
    return a == -HUGE_VAL ? a : a + b + 1e-9 + 8 * kUnitRoundoff * (std::abs(a) + std::abs(b));
}

// Returns the 2-norm of the kernel e^{-tilt t} (1 - e^{-t}) over the first `points` points t = h, 2h, ..., rounded up.
// delta(epsilon) is the sum of tilted masses times this kernel at t = loss - epsilon, up to a factor.
double bound_grid_kernel_norm(double tilt, double h, double points);

// The privacy profile of one of two distributions on the lattice (grid_weights.hpp): of the upper side, which bounds
// delta from above, or of the lower side, which bounds delta from below. x_j is lattice point number j. value[j] is
// delta(x_j) without the mass at infinity, in units of e^{log_scale - tilt (x_j - anchor)}. Each value has a relative
// error `relative`, an absolute error `absolute` in these units, and an error from the mass that `outside` describes.
struct Profile {
    double anchor, h, tilt, log_scale;
    std::int64_t first;
    std::vector<double> value;
    double absolute, relative;
    Outside outside;

    Profile(const InexactWeights& inexact, const Outside& outside, double anchor, double h, double tilt);

    double grid_point(std::size_t j) const {
        return anchor + static_cast<double>(first + static_cast<std::int64_t>(j)) * h;
    }

    // Returns a bound on the error of delta(epsilon) that comes from the finite window. The upper side's profile may be
    // too small by this bound, and the lower side's profile too large.
    double bound_grid_wrapping(double epsilon, bool upper) const;

    // Returns an upper or a lower bound on delta(x_j) without the mass at infinity. A lower bound may be negative.
    double bound_delta_at_grid_point(std::size_t j, bool upper) const;

    // Returns an upper or a lower bound on delta(epsilon) without the mass at infinity, for any epsilon within the
    // lattice. The bound lies on the chord between two points, which is linear in e^epsilon.
    double bound_delta_within_grid(double epsilon, bool upper) const;

    // Returns a bound on the epsilon at which delta, without the mass at infinity, falls to `target`. Where the lattice
    // does not reach far enough, an upper bound may be +infinity and a lower bound -infinity.
    double invert_grid_profile(double target, bool upper) const;
};

}  // namespace tightdp::grid
