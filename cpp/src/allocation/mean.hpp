// The distribution of the mean of t independent likelihood ratios, from above and from below in the convex order: the
// privacy loss of a record that takes part in one of t steps, drawn at random. Theory: docs/theory/allocation.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pld/law.hpp"
#include "runtime/compensated_sum.hpp"

namespace tightdp::allocation {

// Atoms of a privacy loss: P-masses at ascending indices, not quite ascending losses.
struct Atoms {
    std::vector<double> loss, mass;
    double infinity = 0;        // P-mass where Q vanishes
    double minus_infinity = 0;  // Q-mass where P vanishes
    double loss_slack = 0;      // the certified law has its losses moved up (down) by at most this ...
    double mass_rel = 0;        // ... and its masses multiplied by 1 + this (divided by it)
};

struct Mean {
    Atoms upper, lower;
    double work = 0;  // products formed, in units of about a nanosecond
};

// Precondition: `law` is the loss of the pair (P, Q), each step's output with the record and without it;
// steps in [1, 2^53); h = 2^-i, 1 <= i <= 14; floor in (0, 1): probabilities that may be lost at either end.
// Postcondition: with slack and rel applied outward, `upper` dominates the pair ((1/t) sum_i Q^{i-1} P
// Q^{t-i}, Q^t) and `lower` is dominated by it; so do their reversals (section 2). Errors: std::length_error
// where a lattice would need more than `most_cells` points. Range: losses outside [-600, 600] count as
// infinite in `upper` and are merged with others in `lower`.
Mean mean_of_ratios(const grid::Law& law, std::uint64_t steps, double h, double floor, std::size_t most_cells);

// Unit of moments: in it, moments of masses at values of e^-600 and of e^600 are doubles.
inline constexpr double kUnit = 0x1p400;

// A measure on [0, infinity), the unnormalised sum of `count` ratios under Q: cells of the lattice offset + e^{i h}.
struct Sum {
    double count = 0;
    double offset = 0;
    std::int64_t first = 0;
    std::vector<double> q, p;   // kUnit times: of cell first + i, mass times e^{(first + i) h}, moment about the offset
    CompensatedSum at_offset;  // mass at the offset itself
    CompensatedSum at_zero;    // mass at 0, where the offset is positive
    CompensatedSum infinity;   // first moment of what is infinitely large
    double slack = 0, rel = 0;  // relative errors of values (offset included) and of masses

    void add(std::size_t cell, double to_q, double to_p) {
        q[cell] += to_q;
        p[cell] += to_p;
    }
    void add_rounding(double error) {
        rel += error;
        slack += error;
    }
    // Sets empty cells from one index to another.
    void cover(std::int64_t from, std::int64_t to) {
        first = from;
        q.assign(static_cast<std::size_t>(to - from + 1), 0);
        p = q;
    }
    std::int64_t last() const { return first + static_cast<std::int64_t>(q.size()) - 1; }
};

// The sum of two independent measures: masses and moments of the cells (sum.cpp).
Sum plus(const Sum& x, const Sum& y, double h, double& work);

}  // namespace tightdp::allocation
