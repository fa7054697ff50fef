// Laws of one sampling probability, tilted to c, are an exponential family in t^2, t = u/sigma - 1/(2 sigma^2): with
//     N(sigma) = int e^{-sigma^2 t^2/2 - t/2} W^beta dt = sqrt(2 pi) M(c) e^{1/(8 sigma^2)} / sigma
// the density in t is the integrand over N. docs/theory/contour.md, section 10.
#pragma once

#include "contour/composition.hpp"

namespace tightdp::contour {

// ln(N(sigma) / sqrt(2 pi)) lies between.
struct LogMass {
    double lower, upper;
};

// "remove" or "add". (-inf, inf) where nothing is known.
LogMass log_mass(const Pair& pair, double c);

}  // namespace tightdp::contour
