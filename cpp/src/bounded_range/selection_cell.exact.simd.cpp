// The loop declared in selection_cell.hpp, which maximises a function of the losses t of a cell in closed form.
#include "selection_cell.hpp"

#include <cmath>

namespace tightdp::TIGHTDP_ISA {

// Let F be the function of the loss t that selection_cell.hpp maximises for one k, with t, V and eta as defined there.
// Let y = e^{-t}, let s = (y - y_far)/width be the position in the cell, and let p = (1 - e^{-eta}/y)/least. Let low
// and low' (`low_far`, `low_near`) be the values of V at eps_k - t for s = 0 and s = 1. Let high and high' be the
// values at eps_k - t + eta. Then
//     F(s) = p (low + s (low' - low)) + (1 - p)(high + s (high' - high))
// has the form A + B/y + C y, and F is concave because V is convex. The maximum of F is where
//     y^2 = e^{-eta} (g width - e y_far) / (-(least d + e)),  g = low - high, d = high' - high, e = low' - low - d.
// F is evaluated at the computed position as a sum of positive terms. In the code, the variable `p` holds p y least,
// and the variable `rest` holds (1 - p) y least. Small errors of the position change F in second order.
void selection_cell(const SelectionCell& cell, const double* low, const double* high, double* best, std::size_t n) {
    const SelectionCell c = cell;
    for (std::size_t k = 0; k < n; ++k) {
        const double low_far = low[k], low_near = low[k + 1], high_far = high[k], high_near = high[k + 1];
        const double g = low_far - high_far, d = high_near - high_far, e = low_near - low_far - d;
        const double y = std::sqrt(c.end * (g * c.width - e * c.y_far) / -(c.least * d + e));
        double s = (y - c.y_far) / c.width;
        s = s > 0 ? s : 0;  // s is also 0 if y is NaN, which happens where V is constant
        s = s < 1 ? s : 1;
        const double at = c.y_far + s * c.width;
        const double p = c.loss_far + s * c.width, rest = c.end * (c.rest_near + (1 - s) * c.width);
        const double f =
            (p * (s * low_near + (1 - s) * low_far) + rest * (s * high_near + (1 - s) * high_far)) / (at * c.least);
        best[k] = best[k] > f ? best[k] : f;
    }
}

}  // namespace tightdp::TIGHTDP_ISA
