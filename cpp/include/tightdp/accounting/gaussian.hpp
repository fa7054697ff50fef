// Certified bounds for the Gaussian mechanism by its closed form,
//     delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu),
// where mu is the sensitivity divided by the standard deviation of the noise. See Balle and Wang, "Improving the
// Gaussian mechanism for differential privacy", ICML 2018, Theorem 8. The reversed pair has the same privacy profile,
// so adding and removing a record need not be told apart. The error bounds are derived in docs/theory/gaussian.md.
#pragma once

#include <cmath>

#include "interval.hpp"
#include "tightdp/config.hpp"
#include "tightdp/special/mills.hpp"
#include "tightdp/special/normal.hpp"

namespace tightdp {

// A point of the privacy profile: delta(eps), its complement 1 - delta(eps), ln delta(eps), and
// -delta'(eps) / delta(eps), which is minus the slope of ln delta. Small values of delta and of the complement are not
// computed as differences from 1, and ln delta does not underflow.
struct GaussianPoint {
    double delta, complement, log_delta, log_slope;
};

// Bound on the relative errors of delta and of 1 - delta. The bound does not hold for subnormal numbers.
inline constexpr double kGaussianError = 96 * kUnitRoundoff;

// The range of mu for which the error bounds are proved.
inline constexpr double kGaussianMuMin = 1e-9, kGaussianMuMax = 1e9;

namespace detail {

// Returns R(t) - R(t + mu), where R is Mills' ratio, t >= -mu/2 and mu <= max(1, t/3). This difference is the integral
// of S = -R', computed by a Gauss-Legendre rule with ten nodes. The relative error of the rule is below 2^-60
// (docs/theory/gaussian.md, Lemma 2).
TIGHTDP_HD inline double gaussian_delta_over_density(double t, double mu) noexcept {
    constexpr double node[5] = {0.14887433898163122, 0.43339539412924716, 0.67940956829902444, 0.86506336668898454,
                                0.97390652851717174};
    constexpr double weight[5] = {0.29552422471475287, 0.26926671930999635, 0.21908636251598204, 0.14945134915058059,
                                  0.06667134430868814};
    const double middle = t + 0.5 * mu;
    double sum = 0;
    for (int i = 0; i < 5; ++i) {
        for (int sign = -1; sign <= 1; sign += 2) {
            const double x = middle + 0.5 * mu * sign * node[i];
            // If x = -a < 0, S(-a) = 1 + a R(-a) and R(-a) = 1/phi(a) - R(a).
            const double slope = x >= 0 ? mills_slope(x) : 1 - x * (1 / normal_density(x) - mills_ratio(-x));
            sum += weight[i] * slope;
        }
    }
    return 0.5 * mu * sum;
}

}  // namespace detail

// Computes a point of the privacy profile at eps >= 0. The number t = eps/mu - mu/2 is the distance of eps from the
// mean of the privacy loss, in standard deviations. If t is large, an error dt of t changes delta by about a relative
// t dt. So t is stored as the sum of two doubles, the variables `t` and `rest`. If eps/mu > 1e140, delta is 0.
inline GaussianPoint gaussian_accounting_point(double mu, double eps) noexcept {
    const double quotient = eps / mu;
    if (quotient > 1e140) return {0.0, 1.0, -HUGE_VAL, 1e140};
    const double remainder = std::fma(-quotient, mu, eps) / mu;
    const double difference = quotient - 0.5 * mu;
    const double v = difference - quotient;  // the two-sum algorithm: difference + lost = quotient - mu/2 exactly
    const double lost = (quotient - (difference - v)) + (-0.5 * mu - v);
    const double t = difference + (lost + remainder);
    const double rest = (difference - t) + (lost + remainder);
    const double density = kInvSqrt2Pi * exp_half_square(t, rest);
    const double far = mills_ratio(t + mu);  // e^eps Phi(-mu/2 - eps/mu) divided by the density
    const bool smooth = mu <= 1 || mu <= t / 3;
    if (t >= 0) {
        const double gap = smooth ? detail::gaussian_delta_over_density(t, mu) : mills_ratio(t) - far;
        const double delta = density * gap;
        return {delta, 1 - delta, std::log(gap) - 0.5 * t * t - t * rest - kLogSqrt2Pi, far / gap};
    }
    const double complement = density * (mills_ratio(-t) + far);
    const double delta = smooth ? density * detail::gaussian_delta_over_density(t, mu) : 1 - complement;
    const double log_delta = complement < 0.5 ? std::log1p(-complement) : std::log(delta);
    return {delta, complement, log_delta, density * far / delta};
}

struct GaussianBounds {
    Interval delta, complement;
};

// Bounds delta(eps) and 1 - delta(eps) for any finite eps. A negative eps is reduced to a positive one by the identity
// delta(eps) = (1 - e^eps) + e^eps delta(-eps), which holds because the reversed pair has the same profile. The
// identity implies 1 - delta(eps) = e^eps (1 - delta(-eps)).
inline GaussianBounds gaussian_bounds(double mu, double eps) noexcept {
    GaussianPoint p = gaussian_accounting_point(mu, std::fabs(eps));
    if (eps < 0) {
        const double factor = std::exp(eps);
        p.delta = -std::expm1(eps) + factor * p.delta;
        p.complement *= factor;
    }
    const Interval delta = interval_around(p.delta, kGaussianError),
                   complement = interval_around(p.complement, kGaussianError);
    // The smaller of delta and 1 - delta has the smaller absolute error. Its bounds are subtracted from 1 to bound the
    // larger number.
    if (p.delta < 0.5) return {delta, {round_interval_probability_down(1 - delta.upper), round_interval_probability_up(1 - delta.lower)}};
    return {{round_interval_probability_down(1 - complement.upper), round_interval_probability_up(1 - complement.lower)}, complement};
}

// Bounds epsilon(delta) = inf{eps >= 0 : delta(eps) <= delta} for delta in [1e-300, 1).
//
// The root is found by Newton's method on ln delta within a bracket. ln delta is concave and decreasing, so from
// the right of the root, no step of the method passes the root. Then each end of the interval moves outwards until
// gaussian_bounds proves that it is a bound.
inline Interval gaussian_epsilon(double mu, double delta) noexcept {
    const auto at_most = [&](double eps) {  // proves delta(eps) <= delta
        const GaussianBounds b = gaussian_bounds(mu, eps);
        return delta <= 0.5 ? b.delta.upper <= delta : b.complement.lower >= 1 - delta;
    };
    const auto at_least = [&](double eps) {  // proves delta(eps) >= delta
        const GaussianBounds b = gaussian_bounds(mu, eps);
        return delta <= 0.5 ? b.delta.lower >= delta : b.complement.upper <= 1 - delta;
    };
    if (at_most(0)) return {0, 0};
    const double target = std::log(delta);
    // delta(eps) <= P[Y > eps] <= e^{-t^2/2} for the privacy loss Y, if t = eps/mu - mu/2 >= 0.
    double low = 0, high = mu * (0.5 * mu + std::sqrt(-2 * target)) * (1 + 1e-12);
    double eps = high, slope = 1;
    for (int i = 0; i < 200; ++i) {
        const GaussianPoint p = gaussian_accounting_point(mu, eps);
        slope = p.log_slope;
        const double excess = delta <= 0.5 ? p.log_delta - target : ((1 - delta) - p.complement) / p.delta;
        (excess > 0 ? low : high) = eps;
        double next = eps + excess / slope;
        if (!(next >= low && next <= high)) next = 0.5 * (low + high);
        const bool done = std::fabs(next - eps) <= 2 * kUnitRoundoff * eps || next == low || next == high;
        eps = next;
        if (done) break;
    }
    double step = 4 * kUnitRoundoff * eps + 1e-320;
    Interval result{eps, eps};
    while (!at_most(result.upper)) result.upper = eps + (step *= 2);
    for (step = 4 * kUnitRoundoff * eps; result.lower > 0 && !at_least(result.lower);) {
        step *= 2;
        result.lower = step < eps ? eps - step : 0.0;
    }
    return result;
}

}  // namespace tightdp
