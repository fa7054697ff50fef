// The saddle point of G(c) e^{-c eps}, and what the law tilted to an abscissa says of delta. Nothing here is certified:
// it guides the choices of contour_plan.cpp.
#pragma once

#include "contour_cumulant.hpp"

namespace tightdp::contour {

struct Saddle {
    double c, epsilon, log_delta;
    Cumulants k;
};

// By ln delta (by_delta) or by epsilon, from a first guess. False: too many nodes.
bool find_saddle(Cumulant& cumulant, bool by_delta, double target, double c_first, Saddle& best);

// ln delta(epsilon) as if the law tilted to c were normal: right near the saddle point and usable away from it.
double normal_log_delta(double c, const Cumulants& k, double epsilon);

// Its inverse.
double normal_epsilon(double c, const Cumulants& k, double log_delta);

}  // namespace tightdp::contour
