// Carries out a plan: puts distributions on lattices, level by level, and composes them. The upper side of the result
// dominates the composition: its delta is nowhere smaller. The composition dominates the lower side
// (docs/theory/grid.md, section 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grid_plan.hpp"
#include "grid_profile.hpp"

namespace tightdp::grid {

// Sums over the steps of a composition. The steps' weights are composed by their spectra, which are Fourier transforms.
// The spectra do not contain the numbers that are summed here.
struct StepSums {
    double anchor = 0, slack = 0;  // a loss that is a point of the lattice, and the error of losses (BothSides)
    double log_finite_upper = 0, log_finite_lower = 0;  // ln of the product of 1 - (a step's mass at infinity)
    double terms = 0;                                   // number of terms of these sums
    // Number of lattice points and of evaluations of densities over all levels. Results that were found in the store
    // count as if they had been computed now.
    double work = 0;

    // Returns the probability of an infinite loss, rounded up if `high`, and down otherwise.
    double bound_infinite_mass(bool high) const;
};

// The upper or the lower side of a composition.
struct Side {
    InexactWeights inexact;
    Outside beyond;
};

// The upper and the lower side at the last level of a plan.
struct Composed {
    Side upper, lower;
    StepSums sums;
    double h = 0;
};

// Returns ln(1 - infinity), the logarithm of the mass that is not at infinity.
double log_grid_finite_mass(double infinity);

// Places a distribution on the lattice of one level: sets the index of the distribution's left end and the number of
// cells. Returns false if the indices would be too large.
bool place_on_grid(const Range& range, const Lattice& lattice, std::size_t most, std::int64_t& first,
                   std::size_t& cells);

// Moves weights and their errors to a lattice with twice the spacing. On this lattice, the next level composes four
// copies of the distribution (grid.md, section 5.2).
InexactWeights coarsen_grid_weights(const InexactWeights& fine, const Lattice& lattice, bool upper);

// Composes the parts as planned. If the plan cannot be carried out, returns sides with infinite errors.
Composed compose_on_grid(const std::vector<Part>& parts, const Plan& plan);

}  // namespace tightdp::grid
