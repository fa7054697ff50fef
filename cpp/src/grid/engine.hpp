// The grid engine: certified bounds on the composition of any laws (docs/theory/grid.md).
#pragma once

#include <cstddef>
#include <vector>

#include "pld/law.hpp"

namespace tightdp::grid {

// Each error term is in the unit of the answer. It is an upper bound on what it adds to the width, except `lattice`,
// which is the remainder of the width.
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

// Number of times, in this process, that a lower end came out above an upper one. Any such crossing is a mistake in
// the engine, and the answer is then the trivial interval.
std::size_t crossings();

// Bounds on delta(epsilon). An upper end is 0 only where the support has ended, else 1e-307 at least.
Bounds delta(const std::vector<Part>& parts, double epsilon, double width, std::size_t most_points);

// Bounds on delta at `n` ascending epsilons, from as few compositions as possible: within twice the width, or `floor`
// wide. `lower` and `upper` have n entries.
void deltas(const std::vector<Part>& parts, const double* epsilons, std::size_t n, double width, double floor,
            std::size_t most_points, double* lower, double* upper);

}  // namespace tightdp::grid
