// The grid engine: certified bounds on the composition of any privacy loss distributions (docs/theory/grid.md).
#pragma once

#include <cstddef>
#include <vector>

#include "loss_distributions/loss_distribution.hpp"

namespace tightdp::grid {

// Bounds on epsilon or delta, and the error budget that explains their width. Losses are composed on lattices, which
// are equally spaced losses. A composition is computed in levels, each with a lattice of its own (grid_plan.hpp).
struct Bounds {
    double lower = 0, upper = 0;
    // Each term bounds the part of the width upper - lower that one kind of error causes. `wrapping` comes from the
    // mass outside of the lattices, and `truncation` from the mass at infinity. `lattice` is the width minus the other
    // terms.
    double lattice = 0, rounding = 0, wrapping = 0, truncation = 0;
    std::size_t points = 0;  // number of lattice points of the largest level
    int levels = 0;
    double work = 0;  // number of lattice points and of evaluations of densities, over all levels
};

// Bounds inf{epsilon >= 0 : delta(epsilon) <= delta}. The relative width is at most `width`, unless lattices of
// `most_points` points do not suffice or rounding errors prevent it. Preconditions: `parts` is not empty, 0 < delta <
// 1, and the count of each part is at most 2^53.
Bounds bound_grid_epsilon(const std::vector<Part>& parts, double delta, double width, std::size_t most_points);

// Returns how often, in this process, the lower end of an interval came out above the upper end. Any such crossing is a
// mistake in the engine, and the answer is then the trivial interval.
std::size_t count_grid_crossings();

// Bounds delta(epsilon). The upper end is 0 only if epsilon lies beyond the support of the privacy loss. Otherwise the
// upper end is at least kLeast = 1e-307 (transform_free_bounds.hpp).
Bounds bound_grid_delta(const std::vector<Part>& parts, double epsilon, double width, std::size_t most_points);

// Bounds delta at `n` ascending epsilons. Bounds for several epsilons come from one composition if the relative width
// of each is at most twice `width`, or its absolute width at most `floor`. `lower` and `upper` have n entries.
void bound_grid_deltas(const std::vector<Part>& parts, const double* epsilons, std::size_t n, double width,
                       double floor, std::size_t most_points, double* lower, double* upper);

}  // namespace tightdp::grid
