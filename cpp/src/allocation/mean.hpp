// Bounds on the distribution of the mean of t independent likelihood ratios, from above and from below in the convex
// order. The logarithm of this mean is the privacy loss of a record that takes part in one of t steps, which is drawn
// at random (docs/theory/allocation.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pld/law.hpp"
#include "runtime/compensated_sum.hpp"

namespace tightdp::allocation {

// The atoms of a privacy loss and their P-masses. The losses ascend, except for small differences between neighbours.
struct Atoms {
    std::vector<double> loss, mass;
    double infinity = 0;        // P-mass where Q vanishes
    double minus_infinity = 0;  // Q-mass where P vanishes
    double loss_slack = 0;      // bound on the error of a loss
    double mass_rel = 0;        // bound on the relative error of a mass
};

// An upper and a lower distribution. The upper one is a bound once its losses are moved up by loss_slack and its masses
// are multiplied by 1 + mass_rel. The lower one is a bound once its losses are moved down and its masses divided.
struct Mean {
    Atoms upper, lower;
    double work = 0;  // number of products, each of which takes about a nanosecond
};

// Computes `upper` and `lower` for t = `steps` in [1, 2^53). `law` is the loss of the pair (P, Q) of one step's output
// with the record and without it. With slack and rel applied outward, `upper` dominates the pair ((1/t) sum_i Q^{i-1} P
// Q^{t-i}, Q^t), and `lower` is dominated by it. The same holds for their reversals (section 2).
//
// The spacing is h = 2^-i with 1 <= i <= 14. `floor` in (0, 1) is the probability that may be lost at either end.
// Losses outside of [-600, 600] count as infinite in `upper`, and are merged with others in `lower`. Throws
// std::length_error if a lattice would need more than `most_cells` points.
Mean mean_of_ratios(const grid::Law& law, std::uint64_t steps, double h, double floor, std::size_t most_cells);

// The unit of moments. In this unit, moments of masses at values from e^-600 to e^600 neither overflow nor underflow.
inline constexpr double kUnit = 0x1p400;

// A measure on [0, infinity): the distribution under Q of the sum of `count` likelihood ratios. Values are kept as
// offset + v. Cell i contains the v in [e^{i h}, e^{(i+1) h}).
struct Sum {
    double count = 0;
    double offset = 0;
    std::int64_t first = 0;
    // The mass times e^{i h} and the first moment about the offset, for each cell number i from `first` on. Both are
    // stored as multiples of 1/kUnit.
    std::vector<double> q, p;
    CompensatedSum at_offset;  // mass at the offset itself
    CompensatedSum at_zero;    // mass at 0, if the offset is positive
    CompensatedSum infinity;   // first moment of the infinitely large values
    double slack = 0, rel = 0;  // relative errors of values (with the offset) and of masses

    void add(std::size_t cell, double to_q, double to_p) {
        q[cell] += to_q;
        p[cell] += to_p;
    }
    void add_rounding(double error) {
        rel += error;
        slack += error;
    }
    // Replaces the cells by empty ones with the numbers `from` to `to`.
    void cover(std::int64_t from, std::int64_t to) {
        first = from;
        q.assign(static_cast<std::size_t>(to - from + 1), 0);
        p = q;
    }
    std::int64_t last() const { return first + static_cast<std::int64_t>(q.size()) - 1; }
};

// Returns the distribution of the sum of two independent values with the distributions x and y (sum.cpp).
Sum plus(const Sum& x, const Sum& y, double h, double& work);

}  // namespace tightdp::allocation
