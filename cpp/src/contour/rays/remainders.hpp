// The remainders ln(1 + x) - x and e^x - 1 - x of a complex x. If x is small, the errors of the results are small
// relative to x^2 (docs/theory/rays.md, section 4.2). In this file u = 2^-53.
#pragma once

#include "turned_path.hpp"

namespace tightdp::contour {

// A value and a bound on its error.
struct Remainder {
    Complex value;
    double error;
};

// Returns ln(1 + x) - x. The bound on the error is 40u |x|^2 for |x| <= 1/4, and 20u (|ln(1 + x)| + |x|) otherwise.
Remainder ray_log_remainder(Complex x);
// Returns e^x - 1 - x. The bound on the error is 40u |x|^2 for |x| <= 1/4, and 90u (1 + e^Re x) + 4u |x| otherwise.
Remainder ray_exp_remainder(Complex x);

}  // namespace tightdp::contour
