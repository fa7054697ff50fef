// The normalisation N(sigma) of tilted distributions with one sampling probability (docs/theory/contour.md, section
// 10). A distribution of privacy losses y is tilted to c by the factor e^{cy} / M(c), where M is the moment generating
// function of y. Let t = u/sigma - 1/(2 sigma^2) for a standard normal variable u, and W = 1 - q + q e^t. The exponent
// beta is 1 + c for "remove" and -c for "add". The tilted distributions of t form an exponential family in t^2, with
// the density e^{-sigma^2 t^2/2 - t/2} W^beta / N(sigma) and
//     N(sigma) = sqrt(2 pi) M(c) e^{1/(8 sigma^2)} / sigma.
#pragma once

#include "contour/composition.hpp"

namespace tightdp::contour {

// Bounds on ln(N(sigma) / sqrt(2 pi)).
struct LogMass {
    double lower, upper;
};

// Bounds ln(N(sigma) / sqrt(2 pi)) for "remove" or "add". The bounds are -inf and inf if nothing is known.
LogMass log_mass(const Pair& pair, double c);

}  // namespace tightdp::contour
