// The best loss t within a cell in closed form, over all nodes.
#include <cmath>

#include "selection_cell.hpp"

namespace tightdp::TIGHTDP_ISA {

// Finds the largest value F of a selection in each cell. Write y = e^{-t}, s = (y - y_far)/width for the place in the
// cell, and p = (1 - e^{-eta}/y)/least. Then F(s) = p (low + s (low' - low)) + (1 - p)(high + s (high' - high)) has the
// form A + B/y + C y, and it is concave because V is convex. Its maximum is where
//     y^2 = e^{-eta} (g width - e y_far) / (-(least d + e)),  g = low - high, d = high' - high, e = low' - low - d.
// The computed place may be a little off. F is evaluated there, as a sum of positive terms, and misses the maximum by
// an error of second order.
void selection_cell(const SelectionCell& cell, const double* low, const double* high, double* best, std::size_t n) {
    const SelectionCell c = cell;
    for (std::size_t k = 0; k < n; ++k) {
        const double low_far = low[k], low_near = low[k + 1], high_far = high[k], high_near = high[k + 1];
        const double g = low_far - high_far, d = high_near - high_far, e = low_near - low_far - d;
        const double y = std::sqrt(c.end * (g * c.width - e * c.y_far) / -(c.least * d + e));
        double s = (y - c.y_far) / c.width;
        s = s > 0 ? s : 0;  // also where y is no number: V is constant there
        s = s < 1 ? s : 1;
        const double at = c.y_far + s * c.width;
        const double p = c.loss_far + s * c.width, rest = c.end * (c.rest_near + (1 - s) * c.width);
        const double f = (p * (s * low_near + (1 - s) * low_far) + rest * (s * high_near + (1 - s) * high_far)) /
                         (at * c.least);
        best[k] = best[k] > f ? best[k] : f;
    }
}

}  // namespace tightdp::TIGHTDP_ISA
