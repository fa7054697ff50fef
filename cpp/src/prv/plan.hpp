// The spacing and the range of the circular grid of losses for one composition, chosen by the theorem of
// docs/theory/prv.md, section 3.
#pragma once

#include <vector>

#include "moment_bounds.hpp"

namespace tightdp::prv {

struct Plan {
    // Largest sum of all errors in epsilon, in units of eps_error. The grid has room for errors of this size.
    static constexpr double kMargin = 1.25;

    double step = 0;                // spacing h of the grid
    std::size_t n = 0;              // number of points, or 0 if double precision is not enough for the requested errors
    double start = 0;               // first point of the circular grid, which has the length n * step
    std::vector<Support> supports;  // supports of the parts
    double outside = 0;             // probability that a loss leaves its support, or that the sum leaves the grid
    double mesh = 0;                // bound on the sum of all errors in epsilon that come from cells
    double mesh_failure = 0;        // probability with which `mesh` fails to be a bound
};

// Makes a plan for `parts`, which is not empty. Throws TooLarge.
Plan plan_prv_circle(const std::vector<Run>& parts, MomentBounds& moments, MomentBounds& reversed_moments,
                     const Request& request);

}  // namespace tightdp::prv
