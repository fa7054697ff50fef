// Bounds that need no transform: from supports, masses at infinity, and coarse lattices of single laws.
#pragma once

#include <vector>

#include "estimate.hpp"

namespace tightdp::grid {

// An upper bound on the sum of all probabilities that are too small for a double, 2^53 steps and 5e-324 each, and on
// the rounding errors of such deltas. It is part of every upper end that is not zero by support.
inline constexpr double kLeast = 1e-307;

// No finite sum of losses exceeds it.
double top_of(const std::vector<Part>& parts);

// Bounds on the P-mass at infinity.
struct Infinity {
    double lower, upper;
};
Infinity infinity_of(const std::vector<Part>& parts);

// An upper bound on delta(epsilon) that is good where epsilon is just under the largest sum of losses
// (grid.md, section 5.5).
double below_top(const std::vector<Part>& parts, double epsilon);

// A lower bound on delta(epsilon) that is good where it is nearly 1, or epsilon left of all sums of losses:
// all mass less that of min(1, t), t = e^{epsilon - y}, which is at most the root of t, and at most t
// (grid.md, section 5.5).
double nearly_one(const std::vector<Part>& parts, double epsilon);

// An upper bound on delta(epsilon) where epsilon is left of all sums of losses; 1 elsewhere (grid.md, section 5.5).
double left_of_all(const std::vector<Part>& parts, double epsilon);

// An upper bound on delta(epsilon) by one moment of coarse laws that dominate: kernel times e^{-tilt epsilon} M(tilt).
double by_one_moment(const std::vector<Part>& parts, const Sketches& sketches, double tilt, double epsilon);

}  // namespace tightdp::grid
