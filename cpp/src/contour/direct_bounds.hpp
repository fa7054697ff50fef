// Bounds that need no inversion of the moment generating function (docs/theory/contour.md, section 6).
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp::contour {

// Returns delta(0) of one Poisson-subsampled Gaussian step, rounded up. This delta is the total variation distance q
// erf(1 / (2 sqrt(2) sigma)): the largest difference between the probabilities that the pair gives to an event.
TIGHTDP_HD inline double bound_contour_step_delta_directly(double sigma, double q) noexcept {
    return q * std::erf(0.35355339059327376220 / sigma) * (1 + 1e-15);
}

// Returns the largest loss of one Poisson-subsampled Gaussian step under "add", ln(1 / (1 - q)), rounded up.
TIGHTDP_HD inline double bound_contour_add_loss_directly(double q) noexcept {
    return -std::log1p(-q) * (1 + 1e-15);
}

}  // namespace tightdp::contour
