// Mesh and domain of one composition, chosen by the theorem. docs/theory/prv.md, section 3.
#pragma once

#include <vector>

#include "moments.hpp"

namespace tightdp::prv {

struct Plan {
    // Errors in epsilon may add up to this many eps_error before the plan gives up; the domain leaves room
    // for them.
    static constexpr double kMargin = 1.25;

    double step = 0;                // h
    std::size_t n = 0;              // points; 0: the errors asked for are out of reach of double precision
    double start = 0;               // the circle's first point; it ends n steps further
    std::vector<Support> supports;  // of the parts
    double outside = 0;             // probability that a loss leaves its support or their sum the circle
    double mesh = 0;                // what the cells' errors add up to ...
    double mesh_failure = 0;        // ... but for this probability
};

// Precondition: parts not empty. Throws TooLarge.
Plan plan(const std::vector<Run>& parts, Moments& moments, Moments& reversed_moments,
          const Request& request);

}  // namespace tightdp::prv
