// The part of delta that comes from single steps, called d_1 (docs/theory/rays.md, section 1). The moment generating
// function of step j is 1 + D_j up to a known factor, and delta is an integral over the product of all 1 + D_j. The
// terms of the product that are linear in the D_j contribute d_1, which has a closed form.
#pragma once

#include <vector>

#include "tightdp/accounting/gaussian.hpp"
#include "turned_path.hpp"

namespace tightdp::contour {

struct SingleSteps {
    Interval delta{0, 0};
    double slope = 0;  // approximate derivative of delta with respect to epsilon
};

// Bounds d_1. `shift` is -sum count ln(1 - q), and `shifted` = epsilon + shift > 0.
SingleSteps single_steps(const std::vector<LogRatioLaw>& laws, double shifted, double shift);
// Returns an estimate of the epsilon at which d_1 is equal to delta. The result is at most 1e3.
double single_steps_epsilon(const std::vector<LogRatioLaw>& laws, double shift, double delta);

}  // namespace tightdp::contour
