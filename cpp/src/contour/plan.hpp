// Where to invert: abscissa, step and length of the trapezoid sum. docs/theory/contour.md, sections 2 and 3.
#pragma once

#include <limits>

#include "saddle_search.hpp"

namespace tightdp::contour {

// One side of the excess by aliasing: the auxiliary abscissa, the period it asks for, K there.
struct AliasSide {
    double c = 0, period = std::numeric_limits<double>::infinity();
    CertifiedLogMgf k{};
};

struct Plan {
    double c = 0;          // the abscissa
    double epsilon = 0;    // the epsilon aimed at; a guess where delta was given
    double log_delta = 0;  // likewise
    // Whether c belongs to a saddle point. Where it does not a first solution says where to place it.
    bool consistent = false;
    double step = 0;
    long count = 0;        // abscissae c + i m step, m = 0..count
    double log_decay = 0;  // certified: |M(c + is)/M(c)| <= e^log_decay for s >= count * step
    AliasSide left, right;
    CertifiedLogMgf k{};
};

// Makes the plan, and leaves nodes on the cumulant that serve it.
// by_delta: target is ln delta; else it is epsilon, and known_log_delta <= 0 may give ln delta of a first solution.
Status make_plan(Cumulant& cumulant, double tolerance, bool by_delta, double target, double known_log_delta, Plan& plan);

}  // namespace tightdp::contour
