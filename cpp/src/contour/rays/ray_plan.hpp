// Chooses the start and the angle of the ray of the outer integral, and the angle of the paths of the inner integrals
// (docs/theory/rays.md, sections 1 and 5). The bounds hold for any choice, so estimates suffice.
#pragma once

#include <vector>

#include "turned_path.hpp"

namespace tightdp::contour {

struct RayPlan {
    double c = 0;          // start of the ray z = c + e^{w + i ray_angle}
    double epsilon = 0;    // the epsilon that the plan is made for
    double log_delta = 0;  // an estimate of ln delta(epsilon)
    bool known = false;    // whether log_delta is better than a first guess
    double path_angle = 0, ray_angle = 0;
    // Half-widths of the strips around the path and around the ray in which the two integrands are analytic.
    double path_strip = 0, ray_strip = 0;
};

// Makes a plan. `shift` is -sum count ln(1 - q) over the distributions. The last three arguments become members of the
// plan.
RayPlan plan_rays(const std::vector<LogRatioLaw>& laws, double shift, double epsilon, double log_delta, bool known);

}  // namespace tightdp::contour
