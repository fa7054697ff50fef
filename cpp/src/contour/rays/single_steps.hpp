// The part of delta that single steps make: the first order of the product, in closed form. docs/theory/rays.md,
// section 1.
#pragma once

#include <vector>

#include "tightdp/accounting/gaussian.hpp"
#include "turned_path.hpp"

namespace tightdp::contour {

struct SingleSteps {
    Interval delta{0, 0};
    double slope = 0;  // its derivative by epsilon, about
};

// shifted = epsilon + shift > 0, shift = -sum count ln(1 - q).
SingleSteps single_steps(const std::vector<LogRatioLaw>& laws, double shifted, double shift);
// The epsilon at which that is delta, about; at most 1e3.
double single_steps_epsilon(const std::vector<LogRatioLaw>& laws, double shift, double delta);

}  // namespace tightdp::contour
