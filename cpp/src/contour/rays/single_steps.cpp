#include "single_steps.hpp"

#include <algorithm>
#include <cmath>

namespace tightdp::contour {

SingleSteps single_steps(const std::vector<LogRatioLaw>& laws, double shifted, double shift) {
    SingleSteps sum;
    const double u = kUnitRoundoff, many = static_cast<double>(laws.size());
    // `top` is ln(e^E - 1), where E is the argument `shifted` (docs/theory/rays.md, section 1). The error of `top`
    // comes from the errors of E and of the elementary functions.
    const double top = shifted < 1 ? std::log(std::expm1(shifted)) : shifted + std::log1p(-std::exp(-shifted));
    const double top_error = u * ((many + 12) * (1 + shifted) + 10 * std::abs(top));
    for (const LogRatioLaw& law : laws) {
        // The contribution of a distribution to d_1 is e^{-shift} count q/(1 - q) times the delta of a Gaussian
        // mechanism at the epsilon `at`.
        const double odds = std::log(law.q) - std::log1p(-law.q), at = top - odds;
        const double error = 1.01 * (top_error + 8 * u * (law.mean_terms + std::abs(at)));
        const double weight = law.count * std::exp(odds - shift);
        const double slack = u * (20 + 8 * (law.mean_terms + (many + 12) * shift) + many);
        const GaussianBounds low = gaussian_bounds((1 - 2 * u) / law.sigma, at + error);
        const GaussianBounds high = gaussian_bounds((1 + 2 * u) / law.sigma, at - error);
        sum.delta.lower += weight * low.delta.lower * (1 - slack);
        sum.delta.upper += weight * high.delta.upper * (1 + slack);
        // The slope is the derivative of the Gaussian mechanism's delta with respect to `at`, multiplied by the
        // derivative of `at` with respect to E.
        const double y = (at * law.sigma + 0.5 / law.sigma) / std::sqrt(2.0);
        sum.slope -= weight * std::exp(std::min(at, 700.0)) * 0.5 * std::erfc(y) / -std::expm1(-shifted);
    }
    return sum;
}

double single_steps_epsilon(const std::vector<LogRatioLaw>& laws, double shift, double delta) {
    double low = 1e-12, high = 1e3;
    while (high > 1.001 * low) {
        const double middle = std::sqrt(low * high);
        (single_steps(laws, middle + shift, shift).delta.upper > delta ? low : high) = middle;
    }
    return high;
}

}  // namespace tightdp::contour
