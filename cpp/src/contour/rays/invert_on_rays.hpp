// Bounds on delta(epsilon) and epsilon(delta) for a few steps with small sampling probabilities, under "remove". The
// characteristic function of the privacy loss hardly decays for such steps, so the contour is turned to two rays
// (docs/theory/rays.md).
#pragma once

#include "contour/composition.hpp"
#include "contour/result.hpp"

namespace tightdp::contour {

// Tells whether invert_on_rays is suitable. The direction must be "remove", without Gaussians that are not sampled, so
// that the theorem of rays.md covers the composition. All counts must be integers. The number of distributions and the
// expected number of steps that sample the record must be small. The paths (turned_path.hpp) must need few nodes.
bool can_invert_on_rays(const Composition& composition);

// Bounds delta(at), or epsilon(at) if `by_delta`. `tolerance` is the intended relative error of delta. If the sums
// would be too long, the status of the result is not `certified`.
Result invert_on_rays(const Composition& composition, double tolerance, bool by_delta, double at);

}  // namespace tightdp::contour
