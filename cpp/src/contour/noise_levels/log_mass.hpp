// The normalisation N(sigma) of tilted distributions with one sampling probability (docs/theory/contour.md, section
// 10). A distribution of privacy losses y is tilted to c by the factor e^{cy} / M(c). Let t = u/sigma - 1/(2 sigma^2),
// with u, W, beta and M of quadrature.hpp. Tilted to c, the distributions are an exponential family in t^2. With
//     N(sigma) = int e^{-sigma^2 t^2/2 - t/2} W^beta dt = sqrt(2 pi) M(c) e^{1/(8 sigma^2)} / sigma
// the density in t is the integrand divided by N(sigma).
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
