// The inner loop of the value iteration in worst_selections.cpp. The loop maximises over a cell, which is a short
// interval of privacy losses t of one step. selection_cell.exact.simd.cpp defines the loop.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

// The cell of the losses t between i h and (i + 1) h. Here h is the distance between neighbouring losses of the grid in
// worst_selections.cpp, and eta is the length of the interval that contains all losses of a step. Each t in [0, eta]
// stands for a step that has the loss t with probability p, and the loss t - eta with probability 1 - p. Let y = e^{-t}
// and least = 1 - e^{-eta}. Then p = (y - e^{-eta}) / (y least) and 1 - p = e^{-eta} (1 - y) / (y least). All members
// are nonnegative.
struct SelectionCell {
    double y_far;      // e^{-(i+1)h}, the smallest y
    double width;      // e^{-ih} - e^{-(i+1)h}
    double loss_far;   // e^{-(i+1)h} - e^{-eta}, which is p y least at y_far
    double rest_near;  // 1 - e^{-ih}, which is (1 - p) y least e^{eta} at the largest y
    double end;        // e^{-eta}
    double least;      // 1 - e^{-eta}
};

// Maximises p V(eps_k - t) + (1 - p) V(eps_k - t + eta) over the losses t of the cell, for each k < n. If the maximum
// is larger than best[k], the maximum replaces best[k]. eps_k is the k-th epsilon of the grid, and V(eps) is the bound
// on delta for the steps that follow. V is interpolated linearly in e^eps. low[k] and low[k+1] are the values of V at
// eps_k - (i+1)h and at eps_k - ih. high[k] and high[k+1] are the values of V at epsilons that are larger by eta.
TIGHTDP_DECLARE_SIMD(void, selection_cell,
                     (const SelectionCell& cell, const double* low, const double* high, double* best, std::size_t n))

}  // namespace tightdp
