// Bounds on the distribution of the mean of t independent likelihood ratios, from above and from below in the convex
// order. If a record takes part in one of t steps, drawn at random, the logarithm of this mean is the record's privacy
// loss (docs/theory/allocation.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loss_distributions/loss_distribution.hpp"
#include "runtime/compensated_sum.hpp"

namespace tightdp::allocation {

// The values of a privacy loss ln(P/Q) that have positive probability, and their P-masses, the masses under P. The
// losses ascend, except for rounding errors. bound_mean_of_ratios() defines P and Q.
struct Atoms {
    std::vector<double> loss, mass;
    double infinity = 0;        // P-mass where Q vanishes
    double minus_infinity = 0;  // Q-mass where P vanishes
    double loss_slack = 0;      // bound on the absolute error of each loss
    double mass_rel = 0;        // bound on the relative error of each mass
};

// An upper and a lower distribution. The upper distribution is a bound once its losses are raised by loss_slack and its
// masses are multiplied by 1 + mass_rel. The lower distribution is a bound once its losses are lowered by loss_slack
// and its masses are divided by 1 + mass_rel.
struct Mean {
    Atoms upper, lower;
    double work = 0;  // number of products, each of which takes about a nanosecond
};

// Computes `upper` and `lower` for t = `steps` in [1, 2^53). P and Q are the distributions of one step's output with
// the record and without it, and `losses` is the privacy loss distribution of (P, Q). Once slack and errors are applied
// as described at Mean, `upper` dominates (loss_distributions/loss_distribution.hpp) the pair ((1/t) sum_i Q^{i-1} P
// Q^{t-i}, Q^t), and `lower` is dominated by this pair. The reversed distributions bound the reversed pair in the same
// way (allocation.md, section 2).
//
// The lattice of values (RatioSum) has the points e^{ih}, where h = 2^-j with 1 <= j <= 14. `floor` in (0, 1) is the
// probability that may be lost at either end of the lattice. Losses outside of [-600, 600] count as infinite in
// `upper`, and are dropped from `lower`. Throws std::length_error if a lattice would need more than `most_cells`
// points.
Mean bound_mean_of_ratios(const grid::LossDistribution& losses, std::uint64_t steps, double h, double floor,
                          std::size_t most_cells);

// First moments, which are masses times values, are stored as multiples of 1/kUnit. These multiples neither overflow
// nor underflow at values from e^-600 to e^600.
inline constexpr double kUnit = 0x1p400;

// A measure on [0, infinity): the distribution under Q of the sum of `count` likelihood ratios. Values are kept as
// offset + v. Cell i contains the v in [e^{i h}, e^{(i+1) h}).
struct RatioSum {
    double count = 0;
    double offset = 0;
    std::int64_t first = 0;
    // q holds the mass times e^{i h}, and p the first moment (mass times v), of each cell i from `first` on. Both are
    // stored as multiples of 1/kUnit.
    std::vector<double> q, p;
    CompensatedSum at_offset;   // mass at the offset itself
    CompensatedSum at_zero;     // mass at 0, if the offset is positive
    CompensatedSum infinity;    // first moment of the infinitely large values
    double slack = 0, rel = 0;  // bounds on relative errors: `slack` of the values offset + v, `rel` of masses

    void add_to_ratio_cell(std::size_t cell, double to_q, double to_p) {
        q[cell] += to_q;
        p[cell] += to_p;
    }
    void add_ratio_rounding(double error) {
        rel += error;
        slack += error;
    }
    // Replaces the cells by empty ones with the numbers `from` to `to`.
    void cover_ratio_cells(std::int64_t from, std::int64_t to) {
        first = from;
        q.assign(static_cast<std::size_t>(to - from + 1), 0);
        p = q;
    }
    std::int64_t last_ratio_cell() const { return first + static_cast<std::int64_t>(q.size()) - 1; }
};

// Returns the distribution of the sum of two independent values with the distributions x and y (ratio_sum.cpp).
RatioSum add_ratio_sums(const RatioSum& x, const RatioSum& y, double h, double& work);

}  // namespace tightdp::allocation
