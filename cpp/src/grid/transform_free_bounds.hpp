// Bounds that need no Fourier transform (docs/theory/grid.md, section 5.5). These bounds come from supports, from
// masses at infinity, and from coarse lattices of single distributions.
#pragma once

#include <vector>

#include "tilt_estimates.hpp"

namespace tightdp::grid {

// An upper bound on the sum of all probabilities that are too small for a double, and on the rounding errors of a delta
// that is as small. Each of 2^53 steps may have one such probability, below 5e-324. The bound is added to the upper end
// of each delta, unless delta is zero because epsilon lies beyond the support.
inline constexpr double kLeast = 1e-307;

// Returns a number that no finite sum of losses exceeds.
double bound_largest_grid_sum(const std::vector<Part>& parts);

// Bounds on the probability that the loss of the composition is infinite.
struct Infinity {
    double lower, upper;
};
Infinity bound_grid_mass_at_infinity(const std::vector<Part>& parts);

// Returns an upper bound on delta(epsilon) that is close where epsilon is just under the largest sum of losses.
double bound_delta_below_grid_top(const std::vector<Part>& parts, double epsilon);

// Returns a lower bound on delta(epsilon) that is close where delta is nearly 1, or where epsilon is less than every
// sum y of losses. With t = e^{epsilon - y}, delta is the total mass minus the expectation of min(1, t). This minimum
// is at most sqrt(t) and at most t, so the total mass minus E[sqrt(t)] or E[t] is a lower bound.
double bound_delta_near_one_on_grid(const std::vector<Part>& parts, double epsilon);

// Returns an upper bound on delta(epsilon) where epsilon is less than every sum of losses, and 1 elsewhere.
double bound_delta_left_of_grid(const std::vector<Part>& parts, double epsilon);

// Returns an upper bound on delta(epsilon): kappa(tilt) e^{-tilt epsilon} M(tilt) plus the mass at infinity. Here
// kappa(tilt) is the largest value of e^{-tilt y} (1 - e^{-y}), whose logarithm is log_grid_tilt_factor(tilt), and M(tilt) =
// E[e^{tilt Y}; Y finite]. Each part is dominated by a distribution on a coarse lattice, and Y is the sum of the losses
// of these distributions.
double bound_delta_by_grid_moment(const std::vector<Part>& parts, const Sketches& sketches, double tilt,
                                  double epsilon);

}  // namespace tightdp::grid
