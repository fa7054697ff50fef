#include "grid.hpp"

#include <algorithm>
#include <cmath>

#include "grid_estimate.hpp"
#include "grid_plan.hpp"
#include "grid_profile.hpp"

namespace tightdp::grid {
namespace {

constexpr double u = kUnitRoundoff;

struct Composed {
    Inexact upper, lower;
    double anchor = 0, slack = 0;  // sums over all steps
    double log_finite_upper = 0, log_finite_lower = 0;  // ln of the product of 1 - mass at infinity
    double h = 0;

    // P-mass at infinity.
    double infinity(bool high) const {
        const double log = high ? log_finite_upper : log_finite_lower;
        const double mass = -std::expm1(log);
        return high ? std::min(1.0, mass * (1 + 16 * u)) : mass * (1 - 16 * u);
    }
};

double log_without(double infinity) { return infinity < 1 ? std::log1p(-infinity) : -HUGE_VAL; }

// One law on the lattice of one level: the index of its left end and how many cells.
void place(const Law& law, const Range& range, const Lattice& lattice, std::int64_t& first, std::size_t& cells) {
    const double from = std::floor((range.left - lattice.anchor) / lattice.h - 1e-6);
    const double to = std::ceil((range.right - lattice.anchor) / lattice.h + 1e-6);
    first = static_cast<std::int64_t>(from);
    cells = static_cast<std::size_t>(std::clamp(to - from, 1.0, 0x1p26));
    (void)law;
}

Composed run(const std::vector<Part>& parts, const Plan& plan) {
    Composed out;
    double remaining = std::pow(4.0, static_cast<double>(plan.levels.size()) - 1);
    for (std::size_t l = 0; l < plan.levels.size(); ++l, remaining /= 4) {
        const Level& level = plan.levels[l];
        Inexact before_upper, before_lower;
        std::vector<Inexact> upper(parts.size()), lower(parts.size());
        std::vector<Factor> uppers, lowers;
        if (l > 0) {
            const Lattice lattice{out.anchor, level.h, plan.tilt};
            // What is unknown of the errors moves with the weights: split among neighbours, by at most e^{tilt h}.
            const double lean = std::exp(plan.tilt * level.h);
            const auto coarse = [&](const Inexact& fine, bool high) {
                return Inexact{coarsen(fine.w, lattice, high), fine.error1 * lean, fine.error2 * lean * std::sqrt(2.0), fine.log_error};
            };
            before_upper = coarse(out.upper, true);
            before_lower = coarse(out.lower, false);
            uppers.push_back({&before_upper, 4});
            lowers.push_back({&before_lower, 4});
            out.anchor *= 4;
        }
        for (std::size_t j = 0; j < parts.size(); ++j) {
            const double count = level.steps[j];
            if (!(count > 0)) continue;
            const Part& part = parts[j];
            const Lattice lattice{part.upper->anchor, level.h, plan.tilt};
            Discretised d;
            std::int64_t first;
            std::size_t cells;
            place(*part.upper, plan.ranges[j], lattice, first, cells);
            const bool same = part.upper == part.lower;
            discretise(*part.upper, lattice, plan.scales[j], first, cells, true, same, d);
            upper[j].w = std::move(d.upper);
            double infinity_lower = d.infinity_lower;
            if (!same) {
                Discretised e;
                discretise(*part.lower, lattice, plan.scales[j], first, cells, false, true, e);
                d.lower = std::move(e.lower);
                d.slack = std::max(d.slack, e.slack);
                infinity_lower = e.infinity_lower;
            }
            lower[j].w = std::move(d.lower);
            uppers.push_back({&upper[j], count});
            lowers.push_back({&lower[j], count});
            out.anchor += count * lattice.anchor;
            const double steps = count * remaining;
            out.slack += steps * (d.slack + 4 * u * std::abs(lattice.anchor));
            out.log_finite_upper += steps * log_without(d.infinity_upper);
            out.log_finite_lower += steps * log_without(infinity_lower);
        }
        const auto all = [&](const std::vector<Factor>& factors) {
            return compose(factors, level.first, level.n, level.h, level.further_right, level.further_left);
        };
        out.upper = all(uppers);
        out.lower = all(lowers);
        out.h = level.h;
    }
    return out;
}

bool nothing_finite(const std::vector<Part>& parts) {
    for (const Part& part : parts)
        if (part.upper->sketch().empty()) return true;
    return false;
}

std::size_t largest(const Plan& plan) {
    std::size_t n = 0;
    for (const Level& level : plan.levels) n = std::max(n, level.n);
    return n;
}

// Tries again, finer, until the width is met or nothing more is to be had.
template <class Once, class Wide>
Answer refine(Once once, Wide width_of, double width, std::size_t most_points) {
    Answer best;
    double asked = width;
    for (int attempt = 0; attempt < 4; ++attempt) {
        Answer a = once(asked);
        if (attempt > 0) {
            a.lower = std::max(a.lower, best.lower);
            a.upper = std::min(a.upper, best.upper);
        }
        const double got = width_of(a), had = attempt > 0 ? width_of(best) : HUGE_VAL;
        const bool capped = 2 * a.points > most_points;
        best = a;
        if (!(got > width) || capped || got > 0.7 * had || a.rounding + a.wrapping > 0.5 * (a.upper - a.lower)) break;
        asked *= std::max(1e-3, 0.7 * width / got);
    }
    return best;
}

}  // namespace

Answer epsilon(const std::vector<Part>& parts, double delta, double width, std::size_t most_points) {
    if (nothing_finite(parts)) return {HUGE_VAL, HUGE_VAL};
    double log_finite = 0;
    for (const Part& part : parts) log_finite += part.count * log_without(part.upper->infinity);
    // A mass at infinity takes its share of delta first.
    const double left = delta + std::expm1(log_finite);
    const Saddle saddle = saddle_of_delta(parts, std::log(std::max(left, 1e-3 * delta)));
    const auto once = [&](double asked) {
        const double about = std::max(std::abs(saddle.bound), 1e-6);
        const Aim aim{saddle.tilt, std::log(delta), std::log(asked * about * saddle.tilt), most_points};
        const Plan plan = make_plan(parts, aim);
        const Composed c = run(parts, plan);
        const Profile high(c.upper, c.anchor, c.h, plan.tilt), low(c.lower, c.anchor, c.h, plan.tilt);
        Answer a;
        a.points = largest(plan);
        a.levels = static_cast<int>(plan.levels.size());
        const double free = delta - c.infinity(true), bare = delta - c.infinity(false);
        a.upper = free > 0 ? high.invert(free * (1 - 4 * u), true) + c.slack : HUGE_VAL;
        a.lower = bare > 0 ? low.invert(bare * (1 + 4 * u), false) - c.slack : bare < -8 * u * delta ? HUGE_VAL : 0;
        a.upper = std::max(0.0, a.upper);
        a.lower = std::clamp(a.lower, 0.0, a.upper);
        // d ln delta / d epsilon is about -tilt there.
        const double at = std::exp(std::log(delta) + plan.tilt * a.upper - high.log_scale) * plan.tilt;
        a.rounding = (high.rounding + low.rounding) / at + (high.relative + low.relative) / plan.tilt + 2 * c.slack;
        a.wrapping = (high.wrapping + low.wrapping) / at;
        a.truncation = (c.infinity(true) - c.infinity(false)) / (delta * plan.tilt);
        a.lattice = std::max(0.0, a.upper - a.lower - a.rounding - a.wrapping - a.truncation);
        return a;
    };
    return refine(once, [](const Answer& a) { return (a.upper - a.lower) / a.upper; }, width, most_points);
}

Answer delta(const std::vector<Part>& parts, double epsilon, double width, std::size_t most_points) {
    const double floor = std::max(0.0, -std::expm1(epsilon) * (1 - 4 * u));
    if (nothing_finite(parts)) return {1, 1};
    const Saddle saddle = saddle_of_epsilon(parts, epsilon);
    const auto once = [&](double asked) {
        const double log_delta = std::clamp(saddle.bound, -745.0, 0.0);
        const Plan plan = make_plan(parts, {saddle.tilt, log_delta, std::log(asked), most_points});
        const Composed c = run(parts, plan);
        const Profile high(c.upper, c.anchor, c.h, plan.tilt), low(c.lower, c.anchor, c.h, plan.tilt);
        Answer a;
        a.points = largest(plan);
        a.levels = static_cast<int>(plan.levels.size());
        const double infinity = c.infinity(true);
        const double slack = c.slack + 4 * u * std::abs(epsilon);
        a.upper = std::min(1.0, high.bound_at(epsilon - slack, true) + infinity);
        a.lower = std::max(floor, low.bound_at(epsilon + slack, false) + c.infinity(false));
        a.lower = std::min(a.lower, a.upper);
        const double unit = std::exp(high.log_scale - plan.tilt * epsilon);
        a.rounding = (high.rounding + low.rounding) * unit + (high.relative + low.relative + 2 * slack * plan.tilt) * a.upper;
        a.wrapping = (high.wrapping + low.wrapping) * unit;
        a.truncation = infinity - c.infinity(false);
        a.lattice = std::max(0.0, a.upper - a.lower - a.rounding - a.wrapping - a.truncation);
        return a;
    };
    return refine(once, [](const Answer& a) { return (a.upper - a.lower) / a.upper; }, width, most_points);
}

}  // namespace tightdp::grid
