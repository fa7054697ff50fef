#include "grid_run.hpp"

#include <algorithm>
#include <cmath>

#include "grid_estimate.hpp"

namespace tightdp::grid {
namespace {

constexpr double u = kUnitRoundoff;
// A probability of e^-50 left of the window is as good as none.
constexpr double kNegligible = 50;
// Indices of lattice points are exact as doubles, and so are their sums.
constexpr double kMostIndex = 0x1p50;

Outside outside(const std::vector<Factor>& factors, const Level& level, double tilt) {
    Outside out;
    out.last = 0;
    double reach = 0;
    for (const Factor& f : factors) out.last += f.power * f.law->last, reach += std::abs(f.power * f.law->last);
    if (!(reach < kMostIndex)) out.last = HUGE_VAL;  // as good as unknown
    const Extent e = extent(factors);
    const auto first = static_cast<double>(level.first), n = static_cast<double>(level.n);
    const Window& w = level.window;
    out.further_right = w.further_right;
    out.further_left = w.further_left;
    out.further_far = w.further_far;
    if (e.most >= first + n) {
        out.log_right = log_moment(factors, w.further_right, level.h);
        out.log_far = log_moment(factors, w.further_far, level.h);
    }
    if (e.least < first) {
        // Where the support ends near the window the lattice may reach beyond it, by little mass: steeper tilts show it.
        out.log_left = HUGE_VAL;  // unknown until a bound is found
        double best = HUGE_VAL, exponent = tilt + w.further_left;
        for (int i = 0; i < 5; ++i, exponent *= 4) {
            const double log = log_moment(factors, exponent - tilt, level.h), bound = log - exponent * first * level.h;
            if (!(bound < best)) break;
            best = bound, out.log_left = log, out.further_left = exponent - tilt;
            if (exponent >= 0 || bound < -kNegligible) break;
        }
    }
    return out;
}

// Tilted mass that is missing from the window, and mass that is in it though it belongs elsewhere, in units of the law.
double outside_mass(const Outside& o, const Inexact& law, const Level& level) {
    const double from = static_cast<double>(level.first) * level.h, to = from + static_cast<double>(level.n) * level.h;
    const double error = law.log_error + 4 * u * std::abs(law.w.log_scale);
    const double right = std::exp(up(o.log_right, -o.further_right * to) - law.w.log_scale + error);
    const double left = std::exp(up(o.log_left, -o.further_left * from) - law.w.log_scale + error);
    return right + left;
}

// Curves that bound nothing.
Composed failed(Composed out, const Level& level) {
    out.upper = out.lower = Inexact{};
    out.upper.w.w = out.lower.w.w = std::vector<double>(4);
    out.upper.error1 = out.lower.error1 = HUGE_VAL;
    out.upper.last = out.lower.last = HUGE_VAL;
    out.outside_upper = out.outside_lower = Outside{};
    out.h = level.h;
    return out;
}

}  // namespace

double Composed::infinity(bool high) const {
    const double rel = (16 + 4 * terms) * u;
    const double log = high ? log_finite_upper : log_finite_lower;
    const double mass = -std::expm1(log);
    return high ? std::min(1.0, mass * (1 + rel)) : mass * (1 - rel);
}

double log_without(double infinity) { return infinity < 1 ? std::log1p(-infinity) : -HUGE_VAL; }

bool place(const Range& range, const Lattice& lattice, std::size_t most, std::int64_t& first, std::size_t& cells) {
    const double from = std::floor((range.left - lattice.anchor) / lattice.h - 1e-6);
    const double to = std::ceil((range.right - lattice.anchor) / lattice.h + 1e-6);
    if (!(std::abs(from) < kMostIndex && std::abs(to) < kMostIndex)) return false;
    first = static_cast<std::int64_t>(from);
    cells = static_cast<std::size_t>(std::clamp(to - from, 1.0, static_cast<double>(most)));
    return true;
}

Composed run(const std::vector<Part>& parts, const Plan& plan) {
    Composed out;
    double remaining = std::pow(4.0, static_cast<double>(plan.levels.size()) - 1);
    const double last_norm = kernel_norm(plan.tilt, plan.levels.back().h, static_cast<double>(plan.levels.back().n));
    for (std::size_t l = 0; l < plan.levels.size(); ++l, remaining /= 4) {
        const Level& level = plan.levels[l];
        if (!level.possible) return failed(out, level);
        Inexact before_upper, before_lower;
        std::vector<Inexact> upper(parts.size()), lower(parts.size());
        std::vector<Factor> uppers, lowers;
        if (l > 0) {
            const Lattice lattice{out.anchor, level.h, plan.tilt};
            // What is unknown of the errors moves with the weights: split among neighbours, by at most e^{tilt h}.
            const double lean = std::exp(plan.tilt * level.h);
            const auto coarse = [&](Inexact& fine, bool high) {
                // Each coarsening may multiply a 2-norm by sqrt 2: before many, the 1-norm is the better measure.
                const double one = std::sqrt(fine.span) * std::exp(log_kernel(plan.tilt));
                if (one < std::exp2(0.5 * static_cast<double>(plan.levels.size() - l)) * last_norm) {
                    fine.error1 += std::sqrt(fine.span) * fine.error2 * (1 + 4 * u);
                    fine.error2 = 0;
                }
                return Inexact{coarsen(fine.w, lattice, high), fine.error1 * lean, fine.error2 * lean * std::sqrt(2.0),
                               fine.log_error, std::ceil(0.5 * fine.last), 0.5 * fine.span + 2};
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
            const Lattice lattice{part.law->anchor, level.h, plan.tilt};
            Discretised d;
            std::int64_t first;
            std::size_t cells;
            if (!place(plan.ranges[j], lattice, plan.most_cells, first, cells)) return failed(out, level);
            discretise(*part.law, lattice, plan.scales[j], first, cells, d);
            out.work += 0.5 * d.work;
            upper[j].w = std::move(d.upper);
            lower[j].w = std::move(d.lower);
            for (Inexact* side : {&upper[j], &lower[j]}) side->last = d.last;
            uppers.push_back({&upper[j], count});
            lowers.push_back({&lower[j], count});
            out.anchor += count * lattice.anchor;
            const double steps = count * remaining;
            out.slack += steps * (d.slack + 4 * u * std::abs(lattice.anchor)) + 2 * u * remaining * std::abs(out.anchor);
            out.terms += 1;
            out.log_finite_upper += steps * log_without(d.infinity_upper);
            out.log_finite_lower += steps * log_without(d.infinity_lower);
        }
        out.work += static_cast<double>(level.n);
        out.upper = convolve(uppers, level.first, level.n);
        out.lower = convolve(lowers, level.first, level.n);
        out.h = level.h;
        const Outside above = outside(uppers, level, plan.tilt), below = outside(lowers, level, plan.tilt);
        out.upper.last = above.last;
        out.lower.last = below.last;
        if (l + 1 < plan.levels.size()) {
            trim(out.upper);
            trim(out.lower);
            out.upper.error1 += outside_mass(above, out.upper, level);
            out.lower.error1 += outside_mass(below, out.lower, level);
        }
        out.outside_upper = above;
        out.outside_lower = below;
    }
    return out;
}

}  // namespace tightdp::grid
