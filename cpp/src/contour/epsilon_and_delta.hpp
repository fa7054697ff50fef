// Certified bounds on delta(epsilon) and epsilon(delta) of a composition of Gaussian mechanisms with and without
// Poisson sampling. The proofs are in docs/theory/contour.md.
#pragma once

#include "composition.hpp"
#include "result.hpp"

namespace tightdp::contour {

// The functions depend only on their arguments, and throw only Interrupted (runtime/work_budget.hpp). `tolerance` is
// the intended relative error of delta, in [1e-13, 1e-2]. The bounds hold for any tolerance.
Result epsilon(const Composition& composition, double delta, double tolerance);  // for 0 < delta < 1
Result delta(const Composition& composition, double epsilon, double tolerance);  // for any finite epsilon

}  // namespace tightdp::contour
