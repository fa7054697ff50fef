// Bounds for compositions of very many steps (docs/theory/grid.md, section 5.7). The distribution of a step's loss is
// tilted: its mass at each loss y is multiplied by e^{cy}. The sum of the tilted losses is nearly normally distributed.
#pragma once

#include <vector>

#include "loss_distributions/loss_distribution.hpp"

namespace tightdp::grid {

// The two ends of an interval.
struct Ends {
    double lower, upper;
};

// Bounds delta(epsilon). The bounds are [0, 1] where the approximation proves nothing.
Ends bound_delta_by_normal_approximation(const std::vector<Part>& parts, double epsilon);

// Bounds inf{epsilon >= 0 : delta(epsilon) <= delta} for 0 < delta < 1. The bounds are [0, infinity] where the
// approximation proves nothing.
Ends bound_epsilon_by_normal_approximation(const std::vector<Part>& parts, double delta);

}  // namespace tightdp::grid
