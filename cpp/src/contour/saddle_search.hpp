// The search for the saddle point (contour/saddle.hpp). Nothing here is certified: it guides the choices of
// plan.cpp.
#pragma once

#include "cumulant.hpp"

namespace tightdp::contour {

// By ln delta (by_delta) or by epsilon, from a first guess. False: too many nodes.
bool find_saddle(Cumulant& cumulant, bool by_delta, double target, double c_first, Saddle& best);

}  // namespace tightdp::contour
