// ln(1 + x) - x and e^x - 1 - x of a complex x, small relative to x^2 where x is small. docs/theory/rays.md,
// section 4.2.
#pragma once

#include "turned_path.hpp"

namespace tightdp::contour {

// A value and a bound on its error.
struct Remainder {
    Complex value;
    double error;
};

// error: 40u |x|^2 for |x| <= 1/4, else 20u (|ln(1 + x)| + |x|).
Remainder log_remainder(Complex x);
// error: 40u |x|^2 for |x| <= 1/4, else 90u (1 + e^Re x) + 4u |x|.
Remainder exp_remainder(Complex x);

}  // namespace tightdp::contour
