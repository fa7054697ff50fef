// The privacy profile on a lattice, its errors and its inversion (docs/theory/grid.md, sections 5.3 and 5.4). The tilt
// is that of grid_weights.hpp, and grid_profile.hpp explains the kernel and the unit of the values.
#include "grid_profile.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/work_budget.hpp"
#include "tilt_estimates.hpp"

namespace tightdp::grid {

// The kernel e^{-tilt t} (1 - e^{-t}) rises and then falls. So the sum of its squares at the multiples of h is at most
// their integral divided by h, plus the largest square.
double bound_grid_kernel_norm(double tilt, double h, double points) {
    const double peak = std::exp(2 * log_grid_tilt_factor(tilt));
    const double sum = 1 / (h * 2 * tilt * (2 * tilt + 1) * (tilt + 1)) + peak;
    return std::sqrt(std::min(sum, points * peak)) * (1 + 1e-9);
}

Profile::Profile(const InexactWeights& inexact, const Outside& beyond, double anchor_at, double spacing, double tilted)
    : anchor(anchor_at),
      h(spacing),
      tilt(tilted),
      log_scale(inexact.weights.log_scale),
      first(inexact.weights.first),
      value(inexact.weights.values.size()),
      outside(beyond) {
    // value[j] is D_j = (1 - e^{-h}) P_j + e^{-(tilt+1) h} D_{j+1}, where P_j = sum_{i>j} w_i e^{-tilt (x_i - x_j)}.
    // All terms are positive.
    const std::size_t n = value.size();
    work::spend(4 * static_cast<std::int64_t>(n));
    const double keep = std::exp(-tilt * h), decay = std::exp(-(tilt + 1) * h), fall = -std::expm1(-h);
    double p = 0, d = 0;
    for (std::size_t j = n; j-- > 0;) {
        d = fall * p + decay * d;
        value[j] = d;
        p = keep * (p + inexact.weights.values[j]);
    }
    absolute = (std::exp(log_grid_tilt_factor(tilt)) * inexact.error1 +
                bound_grid_kernel_norm(tilt, h, static_cast<double>(n)) * inexact.error2) *
               (1 + 1e-9);
    relative = (8 + 4 * (tilt + 1) * h) * u * static_cast<double>(n) + std::expm1(inexact.log_error) * (1 + 4 * u) +
               8 * u * std::abs(log_scale);
}

double Tail::bound_grid_tail(double tilt, double at) const {
    double least = HUGE_VAL;
    for (std::size_t i = 0; i < exponents.size(); ++i)  // std::min passes over a bound that is NaN
        least = std::min(least, add_grid_logs_up(moments[i], -(tilt + exponents[i]) * at));
    return some ? least : -HUGE_VAL;
}

double Profile::bound_grid_wrapping(double epsilon, bool upper) const {
    const double from = static_cast<double>(first) * h, length = static_cast<double>(value.size()) * h;
    const double at = epsilon - anchor;
    if (upper) return std::exp(outside.right.bound_grid_tail(tilt, from + length));
    // `left` bounds ln P(x < from). The trivial bound is 0, and each moment E[e^{t x}] of the left Tail with a negative
    // t = tilt + exponent gives a bound too.
    double left = 0, far = HUGE_VAL;
    for (std::size_t i = 0; i < TailExponents::kCount; ++i) {
        const double exponent = tilt + outside.left.exponents[i], further = outside.right.exponents[i];
        if (exponent < 0) left = std::min(left, add_grid_logs_up(outside.left.moments[i], -exponent * from));
        far = std::min(far, add_grid_logs_up(add_grid_logs_up(outside.right.moments[i], -(tilt + further) * at),
                                             -further * length));
    }
    return (outside.left.some ? std::exp(add_grid_logs_up(left, -tilt * length)) : 0) +
           (outside.right.some ? std::exp(far) : 0);
}

double Profile::bound_delta_at_grid_point(std::size_t j, bool upper) const {
    const double x = grid_point(j), lean = tilt * (x - anchor);
    const double rel = relative + (8 + 4 * std::abs(lean) + 4 * std::abs(log_scale)) * u;
    const double lost = bound_grid_wrapping(x, upper);
    // Multiplies v by the unit of the values, e^{log_scale - tilt (x - anchor)}. The unit may exceed the range of
    // doubles although the product does not, so the product is computed by logarithms.
    const auto absolute_of = [&](double v) { return v > 0 ? std::exp(std::log(v) + (log_scale - lean)) : 0; };
    if (static_cast<double>(first) + static_cast<double>(j) >= outside.last) return 0;  // no loss is larger
    if (upper) {
        const double v = value[j] + absolute;
        return v >= 0 ? (absolute_of(v) + lost) * (1 + 2 * rel) : HUGE_VAL;
    }
    const double v = value[j] * (1 - std::min(1.0, 2 * rel)) - absolute;
    return v > 0 ? std::min(1.0, absolute_of(v)) * (1 - std::min(1.0, rel)) - lost : -1;
}

double Profile::bound_delta_within_grid(double epsilon, bool upper) const {
    const double r = (epsilon - grid_point(0)) / h;
    if (!(r >= 0)) return upper ? HUGE_VAL : 0;
    if (!(r < static_cast<double>(value.size() - 1))) return upper ? HUGE_VAL : 0;
    // Because r is rounded, point j may lie right of epsilon. In that case the code steps back to the point left of
    // epsilon.
    auto j = static_cast<std::size_t>(r);
    if (grid_point(j) > epsilon && j > 0) --j;
    const double a = bound_delta_at_grid_point(j, upper), b = bound_delta_at_grid_point(j + 1, upper);
    // `share` tells where e^epsilon lies between the values of e^x at the two points. It is (e^d - 1) / (e^w - 1), in a
    // form that does not overflow.
    const double d = epsilon - grid_point(j), w = grid_point(j + 1) - grid_point(j);
    const double share = std::clamp(std::exp(d - w) * std::expm1(-d) / std::expm1(-w), 0.0, 1.0);
    const double mixed = a + (b - a) * share;
    return upper ? mixed + 8 * u * (std::abs(a) + std::abs(b)) : mixed - 8 * u * (std::abs(a) + std::abs(b));
}

double Profile::invert_grid_profile(double target, bool upper) const {
    const std::size_t n = value.size();
    // Tells whether the bound at a point may exceed the target. The answer is yes for an upper bound that is NaN.
    const auto above = [&](std::size_t j) {
        const double b = bound_delta_at_grid_point(j, upper);
        return upper ? !(b <= target) : b > target;
    };
    // The result lies on a chord, the line through the bounds at two neighbouring points as a function of e^epsilon.
    // Any two neighbouring points serve if the bound exceeds the target at the left point only. The profile without its
    // errors decreases with j, so bisecting it gives a first guess of the two points. The bounds need not decrease, so
    // a second bisection finds the two points. It begins with an interval around the guess.
    const auto exceeds_without_errors = [&](std::size_t j) {
        return std::log(value[j]) + log_scale - tilt * (grid_point(j) - anchor) > std::log(target);
    };
    const auto end = static_cast<std::size_t>(
        std::clamp(outside.last - static_cast<double>(first), 1.0, static_cast<double>(n - 1)));
    std::size_t low = 0, high = end;
    while (high - low > 1) {
        const std::size_t mid = low + (high - low) / 2;
        (exceeds_without_errors(mid) ? low : high) = mid;
    }
    for (std::size_t step = 1; !above(low); step *= 2) {
        if (low == 0) return upper ? grid_point(0) : -HUGE_VAL;
        high = low;
        low = low > step ? low - step : 0;
    }
    for (std::size_t step = 1; above(high); step *= 2) {
        if (high == end) return upper && end == n - 1 ? HUGE_VAL : grid_point(high);
        low = high;
        high = std::min(high + step, end);
    }
    while (high - low > 1) {
        const std::size_t mid = low + (high - low) / 2;
        (above(mid) ? low : high) = mid;
    }
    const double a = bound_delta_at_grid_point(low, upper), b = bound_delta_at_grid_point(high, upper),
                 width = grid_point(high) - grid_point(low);
    const double at_chord = (a - target) / (a - b);  // NaN if a is infinite
    const double share = at_chord >= 0 && at_chord <= 1 ? at_chord : upper ? 1 : 0;
    // `inside` is ln(1 + share (e^width - 1)), in a form that does not overflow.
    const double inside = width < 1 ? std::log1p(share * std::expm1(width))
                                    : std::max(0.0, width + std::log(share + (1 - share) * std::exp(-width)));
    const double end_rounding = 8 * u * (std::abs(grid_point(low)) + width);
    return upper ? std::min(grid_point(low) + inside * (1 + 8 * u) + end_rounding, grid_point(high) + end_rounding)
                 : std::max(grid_point(low) + inside * (1 - 8 * u) - end_rounding, grid_point(low) - end_rounding);
}

}  // namespace tightdp::grid
