// Estimates for the plan of a ray and of paths (docs/theory/rays.md, section 5). The outer integral runs along the ray
// of the points z = c + zeta, where all zeta have the same angle (ray_plan.hpp). At each z, the expectation D(z) is an
// inner integral along a path of points h. turned_path.hpp explains D, the path, its integrand B, and the mean of a
// LogRatioLaw. Bounds are needed not only along a path, but along all paths of a strip. The strip is an interval of
// angles with the angle of the path in its middle.
#include "ray_plan.hpp"

#include <algorithm>
#include <cmath>

#include "contour/mgf/quadrature.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Largest angle of a path, and the largest angle of its strip. Gaussian weights decay only at angles below pi/4.
constexpr double kMostTurn = 0.4, kStripEnd = 0.69;
// Turning the paths by an angle a raises the bound on ln prod (1 + D)^count (rays.md, section 1) by about a^2 / 2 times
// the sum of count sigma^2. kTurnNats is the largest increase that is accepted, in nats. With about this
// value, the sums need the fewest nodes.
constexpr double kTurnNats = 45;
// Units of work (runtime/work_budget.hpp) for one node of an estimate.
constexpr std::int64_t kGuideUnits = 25;

// Estimates a bound on |D(c + zeta)| for all |zeta| <= gamma, where gamma is 1 + c, by a coarse sum over a path.
struct GuideLaw {
    double count;
    std::vector<double> loss, modulus, log_weight;

    GuideLaw(const LogRatioLaw& law, double angle, double shifted_epsilon) : count(law.count) {
        const double sd = 1 / law.sigma, cosine = std::cos(angle), sine = std::sin(angle);
        // If gamma is large, |B| has a lobe near |h| = mean + gamma / sigma^2. At its top, ln |B| is about
        // gamma (mean + gamma / (2 sigma^2)). The mean is usually negative, and then ln |B| > 0 only for lobes with
        // |h| > -mean. Other lobes do not matter. The nodes are a fraction of the lobe's standard deviation apart.
        const double last = std::max(2.72 * shifted_epsilon, 2 * std::abs(law.mean)) + 12 * sd + 1;
        double step = 0;
        for (double p = law.mean - 5 * sd; p < std::log(last); p += step) {
            const PathPoint point = path_point(law, p, cosine, sine);
            step = std::min(0.4 * sd, 0.2) / (1 + point.rho);
            loss.push_back(point.h_re);
            modulus.push_back(point.rho);
            log_weight.push_back(point.gaussian.re + std::log(0.4 * law.sigma * step) +
                                 0.5 * std::log(point.slope.re * point.slope.re + point.slope.im * point.slope.im));
        }
    }

    // Returns an estimate of count * ln(1 + |D|).
    double estimate_ray_log_bound(double gamma) const {
        work::spend(kGuideUnits * static_cast<std::int64_t>(loss.size()));
        double sum = 0;
        for (std::size_t i = 0; i < loss.size(); ++i)
            sum += std::exp(std::min(log_weight[i] + gamma * loss[i], 600.0)) * std::min(2.0, gamma * modulus[i]);
        return count * std::log1p(sum);
    }
};

// Returns the c at which an estimate of e^{-c epsilon} (prod (1 + |D|)^count - 1 - sum count |D|) / c is smallest.
double choose_ray_start(const std::vector<LogRatioLaw>& laws, double angle, double shifted_epsilon) {
    std::vector<GuideLaw> guides;
    for (const LogRatioLaw& law : laws) guides.emplace_back(law, angle, shifted_epsilon);
    const auto height = [&](double log_c) {
        const double c = std::exp(log_c);
        double sum = 0;
        for (const GuideLaw& guide : guides) sum += guide.estimate_ray_log_bound(1 + c);
        const double rest = sum < 1e-3 ? 2 * std::log(sum) - 0.7 : std::log(std::expm1(sum) - sum);
        return (sum > 30 ? sum : rest) - c * shifted_epsilon - log_c;
    };
    double low = std::log(1e-3), high = std::log(1e5);
    const double part = 0.381966;
    double a = low + part * (high - low), b = high - part * (high - low), at_a = height(a), at_b = height(b);
    while (high - low > 0.05) {
        if (at_a < at_b) {
            high = b, b = a, at_b = at_a;
            a = low + part * (high - low);
            at_a = height(a);
        } else {
            low = a, a = b, at_a = at_b;
            b = high - part * (high - low);
            at_b = height(b);
        }
    }
    return std::exp(0.5 * (low + high));
}

}  // namespace

RayPlan plan_rays(const std::vector<LogRatioLaw>& laws, double shift, double epsilon, double log_delta, bool known) {
    RayPlan plan;
    plan.epsilon = epsilon;
    plan.log_delta = log_delta;
    plan.known = known;
    double variances = 0;
    for (const LogRatioLaw& law : laws) variances += law.count * law.sigma * law.sigma;
    plan.path_angle = std::min(kMostTurn, std::sqrt(2 * kTurnNats / variances));
    plan.ray_angle = 0.5 * kPi - 0.5 * plan.path_angle;
    plan.ray_strip = 0.5 * plan.path_angle * (1 - 1e-12);  // a little smaller, as ray_angle is rounded
    plan.path_strip = std::min(0.5 * plan.path_angle * (1 - 1e-12), kStripEnd - plan.path_angle);
    // The lobe of |B| is largest at the outer edge of the strip, and its size there determines the steps of both sums.
    plan.c = choose_ray_start(laws, plan.path_angle + plan.path_strip, epsilon + shift);
    return plan;
}

}  // namespace tightdp::contour
