// delta(epsilon) and epsilon(delta) of few steps of small sampling probability ("remove"), whose characteristic
// function hardly decays: the contour is turned to two rays. docs/theory/rays.md.
#pragma once

#include "contour/composition.hpp"
#include "contour/result.hpp"

namespace tightdp::contour {

// Whether the statement of rays.md covers the composition (counts are whole numbers), and its paths are not long.
bool rays_serve(const Composition& composition);

// Declined (no status `certified`) where the sums would be long. tolerance: relative error of delta aimed at.
Result invert_on_rays(const Composition& composition, double tolerance, bool by_delta, double at);

}  // namespace tightdp::contour
