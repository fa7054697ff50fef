// The part of delta that comes from single steps, d_1 of docs/theory/rays.md, section 1: the first order of the product
// of the factors 1 + D_j. This first order has a closed form.
#pragma once

#include <vector>

#include "tightdp/accounting/gaussian.hpp"
#include "turned_path.hpp"

namespace tightdp::contour {

struct SingleSteps {
    Interval delta{0, 0};
    double slope = 0;  // approximate derivative of delta by epsilon
};

// Bounds d_1. `shift` is -sum count ln(1 - q), and `shifted` = epsilon + shift > 0.
SingleSteps single_steps(const std::vector<LogRatioLaw>& laws, double shifted, double shift);
// Returns an estimate of the epsilon at which d_1 is equal to delta. The result is at most 1e3.
double single_steps_epsilon(const std::vector<LogRatioLaw>& laws, double shift, double delta);

}  // namespace tightdp::contour
