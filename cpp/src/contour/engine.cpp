#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "runtime/work.hpp"
#include "sum.hpp"
#include "trivial.hpp"

namespace tightdp::contour {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Result fill(const TrapezoidSum::Value& v, double unit) {
    Result r;
    r.status = Status::certified;
    r.aliasing = v.aliasing * unit;
    r.truncation = v.truncation * unit;
    r.quadrature = v.quadrature * unit;
    r.rounding = v.rounding * unit;
    return r;
}

// The root of S(e) = delta, where S rises above its own error: right of the root the value may drown in it.
bool find_root(const TrapezoidSum& sum, const Plan& plan, double delta, double& e, TrapezoidSum::Value& v) {
    double low = -kInfinity, high = kInfinity, back = 1 / plan.c;
    e = plan.epsilon;
    v = sum.at(e);
    for (int i = 0; i < 60; ++i) {
        double next;
        if (v.delta > v.error() && v.slope < 0) {
            (v.delta > delta ? low : high) = e;
            // Newton on ln delta, which is nearly linear in epsilon where no lobe of the law ends.
            const double move = v.delta * std::log(v.delta / delta) / -v.slope;
            next = e + std::clamp(move, -20 / plan.c, 20 / plan.c);
            if (std::abs(move) <= 1e-14 * std::abs(e) || std::abs(v.delta - delta) <= 1e-15 * delta) break;
            if (!(next > low && next < high)) next = 0.5 * (low + high);
        } else {
            high = e;
            next = std::isfinite(low) ? 0.5 * (low + high) : e - back;
            back *= 2;
        }
        e = next;
        v = sum.at(e);
    }
    return v.delta > 0 && v.slope < 0;
}

// Narrower is better; wider than its own size is no answer of use.
constexpr double kWidest = 0.5;

Result solve_epsilon(const TrapezoidSum& sum, const Plan& plan, double delta, double& e) {
    TrapezoidSum::Value v;
    if (!find_root(sum, plan, delta, e, v)) return {};
    const double error = v.error();
    Result r = fill(v, 1 / -v.slope);
    // Outwards until the certified sides have crossed delta.
    double out = 1.01 * (error + std::abs(v.delta - delta)) / -v.slope + 4 * kUnitRoundoff * std::abs(e);
    bool found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.upper = e + out;
        found = sum.at(r.upper).above() <= delta;
    }
    if (!found) return {};
    out = 1.01 * (error + std::abs(v.delta - delta)) / -v.slope + 4 * kUnitRoundoff * std::abs(e);
    found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.lower = e - out;
        found = sum.at(r.lower).below() >= delta;
    }
    if (!found) r.lower = 0;
    r.upper = std::max(0.0, r.upper);
    r.lower = std::max(0.0, r.lower);
    if (r.upper - r.lower > kWidest * r.upper) r.status = Status::inaccurate;
    return r;
}

Result solve_delta(const TrapezoidSum& sum, double epsilon) {
    const TrapezoidSum::Value v = sum.at(epsilon);
    Result r = fill(v, 1);
    if (!std::isfinite(v.above()) || !std::isfinite(v.below())) return {};
    r.upper = std::clamp(v.above() * (1 + 4 * kUnitRoundoff), std::numeric_limits<double>::min(), 1.0);
    r.lower = std::clamp(v.below() * (1 - 4 * kUnitRoundoff), 0.0, 1.0);
    return r;
}

// epsilon: where the curve was asked, or an estimate of where it meets delta.
Result solve(Cumulant& cumulant, const Plan& plan, bool by_delta, double at, double& epsilon) {
    const TrapezoidSum sum(cumulant, plan);
    epsilon = by_delta ? plan.epsilon : at;
    Result r = by_delta ? solve_epsilon(sum, plan, at, epsilon) : solve_delta(sum, at);
    for (const Part& part : cumulant.parts()) r.nodes += part.nodes();
    r.abscissae = plan.count + 1;
    return r;
}

// A plan serves e-folds of delta around the point that it was made for; beyond, aliases outgrow its
// tolerance.
constexpr double kNear = 3;
// Whatever the plan was made for.
constexpr double kNarrow = 1e-8;
// Of work, for one solution: a thousand parts take a third of it.
constexpr std::int64_t kUnits = 1'000'000'000;

Result invert(const Composition& composition, double tolerance, bool by_delta, double at) {
    const work::Budget budget(kUnits);
    try {
        Cumulant cumulant(composition);
        Plan plan;
        Result r;
        r.status = make_plan(cumulant, tolerance, by_delta, by_delta ? std::log(at) : at, 1, plan);
        if (r.status != Status::certified) return r;
        double epsilon;
        r = solve(cumulant, plan, by_delta, at, epsilon);
        const bool near = plan.consistent && std::abs(epsilon - plan.epsilon) * plan.c < kNear;
        const bool narrow = r.status == Status::certified && r.upper - r.lower <= kNarrow * r.upper;
        if (near || narrow || !std::isfinite(epsilon)) return r;
        // Once more, from what the first solution found.
        const double log_delta = std::log(by_delta ? at : r.upper);
        Cumulant fresh(composition);
        if (make_plan(fresh, tolerance, false, epsilon, std::min(0.0, log_delta), plan) != Status::certified)
            return r;
        const Result better = solve(fresh, plan, by_delta, at, epsilon);
        if (better.status != Status::certified) return r;
        return r.status != Status::certified || better.upper - better.lower < r.upper - r.lower ? better : r;
    } catch (const OutOfWork&) {  // the caller turns to another engine
        Result r;
        r.status = Status::out_of_work;
        return r;
    } catch (const std::bad_alloc&) {  // likewise
        return {};
    }
}

}  // namespace

Result epsilon(const Composition& composition, double delta, double tolerance) {
    // Total variation distances add up at most: delta(0) <= delta means epsilon = 0.
    double distance = std::erf(0.35355339059327376220 * std::sqrt(composition.gaussian_mu2));
    const bool replace = composition.pair.kind == Pair::replace;
    double most = composition.pair.kind == Pair::add && composition.gaussian_mu2 == 0 ? 0 : kInfinity;
    for (const Sampled& s : composition.sampled) {
        distance += s.count * total_variation(replace ? 0.5 * s.sigma : s.sigma, s.q);
        most += s.count * largest_add_loss(s.q);
    }
    // A product and a sum for each part, and what the first term errs (contour.md 6).
    const double more = 1 + 2 * kUnitRoundoff * static_cast<double>(composition.sampled.size() + 8);
    distance *= more;
    most *= more;
    if (distance <= delta) {
        Result zero;
        zero.status = Status::certified;
        return zero;
    }
    Result r = invert(composition, tolerance, true, delta);
    if (r.status != Status::certified || r.lower == 0) {
        // Where delta(0) <= delta the curve need not be followed to negative epsilon.
        const Result at_zero = contour::delta(composition, 0, tolerance);
        if (at_zero.status == Status::certified && at_zero.upper <= delta) {
            Result zero = at_zero;
            zero.lower = zero.upper = 0;
            return zero;
        }
    }
    r.upper = std::min(r.upper, most);
    return r;
}

Result delta(const Composition& composition, double epsilon, double tolerance) {
    if (epsilon < 0) {
        // Reversal: the other pair at -epsilon, where its delta is small, loses no digits (contour.md 6).
        Composition other = composition;
        if (composition.pair.kind != Pair::replace) other.pair = Pair(composition.pair.kind == Pair::remove);
        Result r = invert(other, tolerance, false, -epsilon);
        if (r.status == Status::certified) {
            const double e = std::exp(epsilon), front = -std::expm1(epsilon), slack = 8 * kUnitRoundoff;
            r.lower = std::clamp((front + e * r.lower) * (1 - slack), 0.0, 1.0);
            r.upper = std::clamp((front + e * r.upper) * (1 + slack), 0.0, 1.0);
            for (double* term : {&r.aliasing, &r.truncation, &r.quadrature, &r.rounding}) *term *= e;
            r.rounding += slack * r.upper;
            return r;
        }
    }
    return invert(composition, tolerance, false, epsilon);
}

}  // namespace tightdp::contour
