// The bounds of the contour engine. A bound that needs no inversion of the moment generating function is tried first.
// Then the function is inverted on a line or, for few steps with a small sampling probability, on rays
// (rays/invert_on_rays.hpp).
#include "epsilon_and_delta.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "composition_mgf.hpp"
#include "contour/inversion/invert.hpp"
#include "contour/rays/invert_on_rays.hpp"
#include "direct_bounds.hpp"
#include "solve_within_budget.hpp"

namespace tightdp::contour {
namespace {

// If there are many noise levels, they are put in bins (many_noise_multipliers/noise_bins.hpp), and the errors may be
// larger than planned. If the relative width of a result exceeds both kWide and ten times the tolerance, the result is
// computed again without bins.
constexpr double kWide = 1e-10;
// If the inversion on a line would take too long, the inversion on rays is tried. A result on rays is returned if its
// relative width is at most kWideRays. Otherwise a longer line at a larger tolerance is tried (list_composition_efforts()
// in composition_mgf.hpp).
constexpr double kWideRays = 1e-6;

bool is_contour_result_narrow(const Result& r, double tolerance) {
    return r.status == Status::certified && r.upper - r.lower <= std::max(kWide, 10 * tolerance) * r.upper;
}

Result bound_contour_within_budget(const Composition& composition, double tolerance, bool by_delta, double at) {
    return solve_within_budget([&] {
        const auto ask = [&](const Effort& effort, bool groups) {
            CompositionMgf mgf(composition, groups, effort.products);
            const Result r = invert_contour_curve(mgf, effort.looser * tolerance, by_delta, at);
            return std::pair{r, mgf.is_composition_mgf_grouped()};
        };
        Result r;
        bool grouped = false;
        for (const Effort& effort : list_composition_efforts(composition)) {
            std::tie(r, grouped) = ask(effort, true);
            if (r.status != Status::slow_decay) break;
            if (effort.looser == 1 && can_invert_on_rays(composition)) {
                const Result rays = invert_on_rays(composition, tolerance, by_delta, at);
                if (rays.status == Status::certified && rays.upper - rays.lower <= kWideRays * rays.upper) return rays;
            }
        }
        if (!grouped || is_contour_result_narrow(r, tolerance)) return r;
        const Result each = ask(kWhole, false).first;
        return each.status == Status::certified || r.status != Status::certified ? each : r;
    });
}

}  // namespace

Result epsilon(const Composition& composition, double delta, double tolerance) {
    // delta(0) is at most the sum of the total variation distances of all steps (direct_bounds.hpp). If this sum is at
    // most delta, epsilon is 0.
    double distance = std::erf(0.35355339059327376220 * std::sqrt(composition.gaussian_mu2));
    const bool replace = composition.direction == Direction::replace;
    // If the direction is "add" and there are no plain Gaussians, `most` is the largest loss, which bounds epsilon.
    double most = composition.direction == Direction::add && composition.gaussian_mu2 == 0 ? 0 : HUGE_VAL;
    double largest_distance = distance;  // a lower bound on delta(0), because one part reveals no more than the whole
    for (const Sampled& s : composition.sampled) {
        // The distance of the two shifts is 2 for "replace", and 1 otherwise. Twice the distance has the same effect as
        // half the noise.
        const double one = bound_contour_step_delta_directly(replace ? 0.5 * s.sigma : s.sigma, s.q);
        distance += s.count * one;
        largest_distance = std::max(largest_distance, one);
        most += s.count * bound_contour_add_loss_directly(s.q);
    }
    // The factor covers the rounding errors of a product and a sum for each part, and the error of erf() in `distance`
    // (contour.md, section 6).
    const double more = 1 + 2 * kUnitRoundoff * static_cast<double>(composition.sampled.size() + 8);
    return least_epsilon(distance * more, most * more, delta, [&](bool by_delta, double at) {
        const bool above = largest_distance * (1 - 1e-13) > delta;
        return by_delta || !above ? bound_contour_within_budget(composition, tolerance, by_delta, at) : Result{};
    });
}

Result delta(const Composition& composition, double epsilon, double tolerance) {
    if (epsilon < 0) {
        // Computes delta from the delta of the reversed pair at -epsilon. The delta of the reversed pair is small, so
        // adding 1 - e^epsilon loses no digits (contour.md, section 6).
        Composition other = composition;
        if (composition.direction != Direction::replace)
            other.direction = contour_composition_direction(composition.direction == Direction::remove);
        Result r = bound_contour_within_budget(other, tolerance, false, -epsilon);
        if (r.status == Status::certified) {
            const double e = std::exp(epsilon), front = -std::expm1(epsilon), slack = 8 * kUnitRoundoff;
            r.lower = std::clamp((front + e * r.lower) * (1 - slack), 0.0, 1.0);
            r.upper = std::clamp((front + e * r.upper) * (1 + slack), 0.0, 1.0);
            for (double* term : {&r.aliasing, &r.truncation, &r.quadrature, &r.rounding}) *term *= e;
            r.rounding += slack * r.upper;
            return r;
        }
    }
    return bound_contour_within_budget(composition, tolerance, false, epsilon);
}

}  // namespace tightdp::contour
