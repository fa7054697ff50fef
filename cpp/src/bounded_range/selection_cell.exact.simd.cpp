// The best loss t within a cell in closed form, over all nodes.
#include <cmath>

#include "selection_cell.hpp"

namespace tightdp::TIGHTDP_ISA {

// With y = e^{-t} and the place s = (y - y_far)/width in the cell, F(s) = p (low + s (low' - low)) + (1 -
// p)(high + s (high' - high)), p = (1 - e^{-eta}/y)/least, is A + B/y + C y, concave for the convex V: its
// maximum is where y^2 = e^{-eta} (g width - e y_far) / (-(least d + e)), g = low - high, d = high' - high, e
// = low' - low - d. The place may be a little off; F is evaluated there, a sum of positive terms, and misses
// the maximum by a second-order amount.
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
