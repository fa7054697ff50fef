// The start of the rays, and the angles of rays and paths. Sums that are not certified guide the choice, as no bound
// rests on it. docs/theory/rays.md, section 5.
#pragma once

#include <vector>

#include "turned_path.hpp"

namespace tightdp::contour {

struct RayPlan {
    double c = 0;          // z = c + e^{w + i ray_angle}
    double epsilon = 0;    // aimed at
    double log_delta = 0;  // there, about
    bool known = false;    // log_delta is more than a first guess
    double path_angle = 0, ray_angle = 0;
    double path_strip = 0, ray_strip = 0;  // half-widths in which both rules are analytic
};

// epsilon: aimed at; log_delta: ln of delta there, known or guessed.
RayPlan plan_rays(const std::vector<LogRatioLaw>& laws, double shift, double epsilon, double log_delta, bool known);

}  // namespace tightdp::contour
