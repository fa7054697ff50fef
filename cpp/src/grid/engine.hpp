// The grid engine: certified bounds on the composition of any laws (docs/theory/grid.md).
#pragma once

#include <cstddef>
#include <vector>

#include "pld/law.hpp"

namespace tightdp::grid {

// Each error term is in the unit of the answer, an upper bound on what it adds to the width but for `lattice`, which
// is what remains.
struct Bounds {
    double lower = 0, upper = 0;
    double lattice = 0, rounding = 0, wrapping = 0, truncation = 0;
    std::size_t points = 0;  // of the largest level
    int levels = 0;
    double work = 0;  // points and evaluations of densities, of all levels
};

// Bounds on inf{epsilon >= 0 : delta(epsilon) <= delta}; parts not empty, 0 < delta < 1, counts up to 2^53.
// The relative width asked for is met, or else `most_points` was reached, or rounding stands in the way.
Bounds epsilon(const std::vector<Part>& parts, double delta, double width, std::size_t most_points);

// How often, in this process, a lower end came out above an upper one: never, or there is a mistake; the answer is then
// that nothing is known.
std::size_t crossings();

// Bounds on delta(epsilon). An upper end is 0 only where the support has ended, else 1e-307 at least.
Bounds delta(const std::vector<Part>& parts, double epsilon, double width, std::size_t most_points);

// The same at `n` epsilons that ascend, of as few compositions as serve: within twice the width, or `floor` wide.
// `lower` and `upper` have n entries.
void deltas(const std::vector<Part>& parts, const double* epsilons, std::size_t n, double width, double floor,
            std::size_t most_points, double* lower, double* upper);

}  // namespace tightdp::grid
