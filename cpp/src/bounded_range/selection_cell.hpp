// One cell of losses t of one step, for all nodes: shared by value_iteration.cpp and the kernel it calls.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

// The cell of t between i h and (i + 1) h, with y = e^{-t}. All members are positive.
struct SelectionCell {
    double y_far;       // e^{-(i+1)h}, the smallest y
    double width;       // e^{-ih} - e^{-(i+1)h}
    double loss_far;    // e^{-(i+1)h} - e^{-eta}: p = (y - e^{-eta}) / (y least)
    double rest_near;   // 1 - e^{-ih}: 1 - p = e^{-eta} (1 - y) / (y least)
    double end;         // e^{-eta}
    double least;       // 1 - e^{-eta}
};

// best[k] = max(best[k], largest over the cell of p V(eps_k - t) + (1 - p) V(eps_k - t + eta)), k < n, where
// V is interpolated linearly in e^eps: low[k], low[k+1] are its values at eps_k - (i+1)h and eps_k - ih, high
// those at eta above.
TIGHTDP_DECLARE_SIMD(void, selection_cell,
                     (const SelectionCell& cell, const double* low, const double* high, double* best, std::size_t n))

}  // namespace tightdp
