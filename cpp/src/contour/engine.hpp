// delta(epsilon) and epsilon(delta) of a composition of Poisson-subsampled and plain Gaussians, certified.
// Statement and proof: docs/theory/contour.md. The term names match its sections.
#pragma once

#include "composition.hpp"
#include "result.hpp"

namespace tightdp::contour {

// epsilon and delta throw nothing but Interrupted (runtime/work.hpp) and read nothing but their arguments. tolerance:
// relative error of delta aimed at, in [1e-13, 1e-2]; the bounds hold whatever it is.
Result epsilon(const Composition& composition, double delta, double tolerance);  // 0 < delta < 1
Result delta(const Composition& composition, double epsilon, double tolerance);  // finite epsilon

}  // namespace tightdp::contour
