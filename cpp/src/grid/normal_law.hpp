// Bounds of long runs by the normal law that their tilted losses come close to (docs/theory/grid.md, section 5.7).
#pragma once

#include <vector>

#include "pld/law.hpp"

namespace tightdp::grid {

struct Ends {
    double lower, upper;
};

// Bounds on delta(epsilon); [0, 1] where nothing is known.
Ends normal_delta(const std::vector<Part>& parts, double epsilon);

// Bounds on inf{epsilon >= 0 : delta(epsilon) <= delta}, 0 < delta < 1; [0, infinity] where nothing is known.
Ends normal_epsilon(const std::vector<Part>& parts, double delta);

}  // namespace tightdp::grid
