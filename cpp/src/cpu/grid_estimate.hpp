// Uncertified estimates that a plan is made from; what the plan leads to is certified whatever they are.
#pragma once

#include <vector>

#include "grid_law.hpp"

namespace tightdp::grid {

struct Cumulant {
    double value = 0, mean = 0, variance = 0;  // ln E[e^{tilt Y}; Y finite] and its first two derivatives
};

Cumulant cumulant(const Law& law, double tilt);

// All parts together. Counts may be fractions of theirs: `share` scales them.
Cumulant cumulant(const std::vector<Part>& parts, double tilt, double share = 1);

// ln sup over y of e^{-tilt y} (1 - e^{-y})_+: delta(eps) <= M(tilt) e^{-tilt eps} times its exponential.
double log_kernel(double tilt);

// The tilt that bounds delta(epsilon) best and the logarithm of that bound, or the one that bounds epsilon(delta) best
// and that bound.
struct Saddle {
    double tilt, bound;
};
Saddle saddle_of_epsilon(const std::vector<Part>& parts, double epsilon);
Saddle saddle_of_delta(const std::vector<Part>& parts, double log_delta);

// Where the composition, tilted, has all but e^{-log_tail} of its mass on either side, and the further tilts that show it.
struct Window {
    double left, right, further_left, further_right;
};
Window window(const std::vector<Part>& parts, double tilt, double log_tail, double share = 1);

// Losses between which a law is put on the lattice: left of them e^{tilt left} P(Y < left) is below e^{-log_left} of
// the tilted mass, right of them P(Y > right) is below e^{-log_right}.
struct Range {
    double left, right;
};
Range range(const Law& law, double tilt, double log_left, double log_right);

}  // namespace tightdp::grid
