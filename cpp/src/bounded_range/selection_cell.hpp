// One cell of losses t of one step, for value_iteration.cpp and the loop that it calls (selection_cell.exact.simd.cpp).
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

// The cell of the losses t between i h and (i + 1) h, with y = e^{-t}. The step has the loss t with the probability p,
// and the loss t - eta with the probability 1 - p. Here p = (y - e^{-eta}) / (y least) and
// 1 - p = e^{-eta} (1 - y) / (y least). All members are positive.
struct SelectionCell {
    double y_far;       // e^{-(i+1)h}, the smallest y
    double width;       // e^{-ih} - e^{-(i+1)h}
    double loss_far;    // e^{-(i+1)h} - e^{-eta}, which is p y least at y_far
    double rest_near;   // 1 - e^{-ih}, which is (1 - p) y least e^{eta} at the largest y
    double end;         // e^{-eta}
    double least;       // 1 - e^{-eta}
};

// Replaces best[k], k < n, by the maximum over the cell of p V(eps_k - t) + (1 - p) V(eps_k - t + eta) if that is
// larger. V is interpolated linearly in e^eps. low[k] and low[k+1] are its values at eps_k - (i+1)h and at eps_k - ih.
// `high` has the values at losses that are larger by eta.
TIGHTDP_DECLARE_SIMD(void, selection_cell,
                     (const SelectionCell& cell, const double* low, const double* high, double* best, std::size_t n))

}  // namespace tightdp
