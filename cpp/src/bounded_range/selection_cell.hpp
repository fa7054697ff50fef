// One cell of privacy losses t of one step of a value iteration, for value_iteration.cpp and for the loop in
// selection_cell.exact.simd.cpp.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

// The cell of the losses t between i h and (i + 1) h, where h is the distance of the losses in value_iteration.cpp. Let
// y = e^{-t}. A step of this t has the loss t with probability p, and the loss t - eta with probability 1 - p. Here
// p = (y - e^{-eta}) / (y least) and 1 - p = e^{-eta} (1 - y) / (y least). All members are nonnegative.
struct SelectionCell {
    double y_far;       // e^{-(i+1)h}, the smallest y
    double width;       // e^{-ih} - e^{-(i+1)h}
    double loss_far;    // e^{-(i+1)h} - e^{-eta}, which is p y least at y_far
    double rest_near;   // 1 - e^{-ih}, which is (1 - p) y least e^{eta} at the largest y
    double end;         // e^{-eta}
    double least;       // 1 - e^{-eta}
};

// Maximises p V(eps_k - t) + (1 - p) V(eps_k - t + eta) over the losses t of the cell, for each k < n. If the maximum
// is larger than best[k], it replaces best[k]. V(eps) is the bound on delta for the steps that follow, and eps_k is the
// loss with the number k. V is interpolated linearly in e^eps. low[k] and low[k+1] are the values of V at eps_k -
// (i+1)h and at eps_k - ih. high[k] and high[k+1] are the values at losses that are larger by eta.
TIGHTDP_DECLARE_SIMD(void, selection_cell,
                     (const SelectionCell& cell, const double* low, const double* high, double* best, std::size_t n))

}  // namespace tightdp
