#include "contour_saddle.hpp"

#include <algorithm>
#include <cmath>

#include "tightdp/contour/quadrature.hpp"

namespace tightdp::contour {
namespace {

Saddle saddle_at(double c, const Cumulants& k) {
    const double v = k.k2 + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
    const double epsilon = k.k1 - 1 / c - 1 / (1 + c);
    return {c, epsilon, k.k0 - c * epsilon - std::log(c) - std::log1p(c) - 0.5 * std::log(2 * kPi * v), k};
}

// e^{x^2} erfc(x), to some digits: it guides choices only.
double scaled_erfc(double x) {
    return x < 5 ? std::exp(x * x) * std::erfc(x) : (1 - 0.5 / (x * x) * (1 - 1.5 / (x * x))) / (x * std::sqrt(kPi));
}

}  // namespace

// Newton in ln c, kept in a bracket. By delta: ln delta falls in c at the rate c V. By epsilon: it grows at the rate V.
bool find_saddle(Cumulant& cumulant, bool by_delta, double target, double c_first, Saddle& best) {
    double low = 1e-13, high = 1e13, c = std::clamp(c_first, 1e-6, 1e6);
    for (int i = 0; i < 60; ++i) {
        Cumulants k;
        if (!cumulant.at(c, k)) return false;
        best = saddle_at(c, k);
        const double v = k.k2 + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
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

double normal_log_delta(double c, const Cumulants& k, double epsilon) {
    const double sd = std::sqrt(k.k2), m = (k.k1 - epsilon) / sd, a = (c * sd - m) / std::sqrt(2.0);
    if (a < -20) return 0;
    const double step = sd / std::sqrt(2.0), first = scaled_erfc(a);
    const double drop = step > 1e-4 ? first - scaled_erfc(a + step) : step * (2 / std::sqrt(kPi) - 2 * a * first);
    return k.k0 - c * epsilon - 0.5 * m * m + std::log(std::max(0.5 * drop, 1e-300));
}

double normal_epsilon(double c, const Cumulants& k, double log_delta) {
    const double sd = std::sqrt(k.k2);
    double low = k.k1 - 30 * sd, high = k.k1 + 30 * sd;
    for (int i = 0; i < 50; ++i) {
        const double mid = 0.5 * (low + high);
        (normal_log_delta(c, k, mid) > log_delta ? low : high) = mid;
    }
    return 0.5 * (low + high);
}

}  // namespace tightdp::contour
