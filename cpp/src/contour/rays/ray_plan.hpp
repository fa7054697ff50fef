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
    double path_strip = 0, ray_strip = 0;  // half-widths of the strips in which the two integrands are analytic
};

// Makes a plan. `shift` is lambda of rays.md, section 1. The later arguments become members of the plan.
RayPlan plan_rays(const std::vector<LogRatioLaw>& laws, double shift, double epsilon, double log_delta, bool known);

}  // namespace tightdp::contour
