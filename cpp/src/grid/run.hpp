// One attempt: laws on lattices, level by level, composed from above and from below (docs/theory/grid.md, section 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan.hpp"
#include "profile.hpp"

namespace tightdp::grid {

// What adds up over the steps beside spectra.
struct StepSums {
    double anchor = 0, slack = 0;
    double log_finite_upper = 0, log_finite_lower = 0;  // ln of the product of 1 - mass at infinity
    double terms = 0;                                   // of those sums
    double work = 0;  // points and evaluations of densities, of all levels, as if nothing had been kept

    // P-mass at infinity, rounded up or down.
    double infinity(bool high) const;
};

// One side of a composition.
struct Side {
    Inexact law;
    Outside beyond;
};

// Both sides at the last level of a plan.
struct Composed {
    Side upper, lower;
    StepSums sums;
    double h = 0;
};

// ln of what is not at infinity.
double log_without(double infinity);

// One law on the lattice of one level: the index of its left end and how many cells. False if out of reach of indices.
bool place(const Range& range, const Lattice& lattice, std::size_t most, std::int64_t& first, std::size_t& cells);

// Weights on a lattice of twice the spacing, whose fourth power is taken next, and how far off they are (section 5.2).
Inexact coarsen(const Inexact& fine, const Lattice& lattice, bool upper);

// Curves that bound nothing where the plan cannot be carried out.
Composed run(const std::vector<Part>& parts, const Plan& plan);

}  // namespace tightdp::grid
