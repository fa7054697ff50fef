#include "saddle_search.hpp"

#include <algorithm>
#include <cmath>

namespace tightdp::contour {

// Newton in ln c, kept in a bracket. By delta: ln delta falls in c at the rate c V. By epsilon: it grows at the rate V.
bool find_saddle(Cumulant& cumulant, bool by_delta, double target, double c_first, Saddle& best) {
    double low = 1e-13, high = 1e13, c = std::clamp(c_first, 1e-6, 1e6);
    for (int i = 0; i < 60; ++i) {
        Cumulants k;
        if (!cumulant.at(c, k)) return false;
        best = saddle_at(c, k);
        const double v = saddle_curvature(c, k);
        const double gap = by_delta ? best.log_delta - target : target - best.epsilon;
        (gap > 0 ? low : high) = c;
        double step = gap / (c * v * (by_delta ? c : 1));
        if (!std::isfinite(step)) return false;
        // The abscissa only has to be good; Newton on the transform itself finds epsilon.
        if (std::abs(gap) * (by_delta ? 1 : c) < 0.02) return true;
        step = std::clamp(step, -1.5, 1.5);
        double next = c * std::exp(step);
        if (!(next > low && next < high)) next = std::sqrt(low * high);
        if (high / low < 1 + 1e-9) return true;
        c = next;
    }
    return true;
}

}  // namespace tightdp::contour
