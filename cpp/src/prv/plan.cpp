// Chooses the grid of one composition, by the theorems of Gopi, Lee and Wutschitz, "Numerical composition of
// differential privacy", 2021 (docs/theory/prv.md, section 3). A support is an interval that contains a loss except
// with a small probability.
#include "plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "curve.hpp"
#include "fft/real_fft.hpp"

namespace tightdp::prv {
namespace {

// Fractions of delta_error for three kinds of error: the rounding of losses to cells, the two tails of the sum
// together, and the tails of all single losses together.
constexpr double kMeshShare = 1.0 / 6, kSumShare = 1.0 / 4, kSingleShare = 1.0 / 8;

// Returns the number of steps of all parts together.
double count_prv_steps(const std::vector<Run>& parts) {
    double k = 0;
    for (const Run& part : parts) k += static_cast<double>(part.count);
    return k;
}

// An interval that contains the sum of the losses, except with the probabilities that are allowed for the tails of the
// sum and for the tails of the single losses.
struct Range {
    double low, high;
};

// Intersects a range with bounds that need no moments. These bounds come from the ends of all supports and, if the
// moments are unknown, from Hoeffding's inequality.
Range narrow_by_prv_supports(Range range, const std::vector<Run>& parts, const std::vector<Support>& supports,
                             double log_inverse) {
    double low = 0, high = 0, squares = 0, mean_sum = 0;
    const bool hoeffding = !std::isfinite(range.high);
    for (std::size_t j = 0; j < parts.size(); ++j) {
        const double k = static_cast<double>(parts[j].count), width = supports[j].high - supports[j].low;
        low += k * supports[j].low;
        high += k * supports[j].high;
        if (!hoeffding) continue;
        const Mean m = prv_mean(parts[j].law);
        mean_sum += k * (m.value + m.error + prv_mean_truncation(m, supports[j]));
        squares += k * width * width;
    }
    if (hoeffding) range.high = mean_sum + std::sqrt(0.5 * squares * log_inverse);
    const double slack = 1e-12 * (std::fabs(low) + std::fabs(high));
    range = {std::max(range.low, low - slack), std::min(range.high, high + slack)};
    return {range.low, std::max(range.low, range.high)};
}

}  // namespace

Plan plan_prv_circle(const std::vector<Run>& parts, MomentBounds& moments, MomentBounds& reversed_moments,
                     const Request& request) {
    const double k = count_prv_steps(parts), delta_error = request.delta_error;
    Plan plan;
    plan.mesh_failure = kMeshShare * delta_error;
    plan.outside = (kSumShare + kSingleShare) * delta_error;
    double displacement = 0, widest = 0;
    for (const Run& part : parts) {
        const Support s = prv_support(part.law, kSingleShare * delta_error / k);
        displacement = std::max(displacement, 2 * edge_error(part.law, s));
        widest = std::max(widest, s.high - s.low);
        plan.supports.push_back(s);
    }
    const double log_inverse = std::log(2 / (kSumShare * delta_error));
    const Range moment_range{-reversed_moments.reversed_quantile(log_inverse),
                             moments.upper_quantile(log_inverse)};
    const Range range = narrow_by_prv_supports(moment_range, parts, plan.supports, log_inverse);

    // Theorem 5.5 of the paper (above) has the spacing h = eps_error / sqrt(k/2 ln(12/delta_error)) for k steps. The
    // loss of each step is rounded to the middle of a cell, and the sum of the k rounding errors never exceeds k h.
    const double deviations = std::min(std::sqrt(0.5 * k * std::log(2 / plan.mesh_failure)), k);
    const double coarsest = request.eps_error / deviations, margin = Plan::kMargin * request.eps_error;
    const double width = range.high - range.low + 2 * margin;
    // The grid is circular: its last point is followed by its first (Circle in epsilon_and_delta.hpp). It has room for
    // two further blocks of Curve::kBlock points. One block is needed because the grid starts at a multiple of a block,
    // and the other for the cells at the ends of the grid.
    constexpr double kSpare = 2 * Curve::kBlock;
    const double points = std::exp2(std::ceil(std::log2(width / coarsest + kSpare)));
    plan.step = width / (points - kSpare);
    // The memory holds the values, the roots of unity, and the edges and cells of one distribution. For several parts
    // it also holds a second spectrum.
    const double here = points * (parts.size() > 1 ? 16 : 8) + points * 9.5;
    const double bytes =
        (request.bytes_a_point > 0 ? points * request.bytes_a_point : here) + 16 * (widest / plan.step);
    const bool fits = bytes <= request.max_bytes && points <= static_cast<double>(RealFft::kMaxLength);
    if (!fits) throw TooLarge(bytes, request.max_bytes);
    plan.start = range.low - margin;
    plan.mesh = (plan.step + displacement) * deviations * (1 + 1e-12);
    if (plan.mesh <= margin) plan.n = static_cast<std::size_t>(points);
    return plan;
}

}  // namespace tightdp::prv
