// delta(epsilon) and epsilon(delta) of a Curve (plan.hpp) by the trapezoid sum, certified.
// docs/theory/contour.md, sections 1 and 6. Besides what the planner asks for, a Curve has
//     void transform(plan)                computes the ordinates on the nodes that were placed for the plan
//     CurveValue value(plan, epsilon)     from them
//     long nodes()
//     kEnough                             Newton ends where it is within this part of the error
#pragma once

#include "trapezoid_sum.hpp"

namespace tightdp::contour {

TIGHTDP_HD inline Result certified(const CurveValue& v, double unit) noexcept {
    Result r;
    r.status = Status::certified;
    r.aliasing = v.aliasing * unit;
    r.truncation = v.truncation * unit;
    r.quadrature = v.quadrature * unit;
    r.rounding = v.rounding * unit;
    return r;
}

// The root of S(e) = delta, where S rises above its own error: right of the root the value may drown in it.
template <class Curve>
TIGHTDP_HD_STAGE bool find_root(const Curve& curve, const Plan& plan, double delta, double& e, CurveValue& v) {
    double low = -HUGE_VAL, high = HUGE_VAL, back = 1 / plan.c;
    e = plan.epsilon;
    v = curve.value(plan, e);
    for (int i = 0; i < 60; ++i) {
        double next;
        if (v.delta > v.error() && v.slope < 0) {
            (v.delta > delta ? low : high) = e;
            // Newton on ln delta, which is nearly linear in epsilon where no lobe of the law ends.
            const double move = v.delta * std::log(v.delta / delta) / -v.slope, gap = std::fabs(v.delta - delta);
            next = e + clamped(move, -20 / plan.c, 20 / plan.c);
            if (std::fabs(move) <= 1e-14 * std::fabs(e) || gap <= 1e-15 * delta || gap < Curve::kEnough * v.error())
                break;
            if (!(next > low && next < high)) next = 0.5 * (low + high);
        } else {
            high = e;
            next = low > -HUGE_VAL ? 0.5 * (low + high) : e - back;
            back *= 2;
        }
        e = next;
        v = curve.value(plan, e);
    }
    return v.delta > 0 && v.slope < 0;
}

// Largest relative width of an answer; wider ones are of no use.
inline constexpr double kWidest = 0.5;

template <class Curve>
TIGHTDP_HD_STAGE Result solve_epsilon(const Curve& curve, const Plan& plan, double delta, double& e) {
    CurveValue v;
    if (!find_root(curve, plan, delta, e, v)) return {};
    Result r = certified(v, 1 / -v.slope);
    const double first = 1.01 * (v.error() + std::fabs(v.delta - delta)) / -v.slope + 4 * kUnitRoundoff * std::fabs(e);
    // Moves outwards until the certified sides have crossed delta.
    double out = first;
    bool found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.upper = e + out;
        found = curve.value(plan, r.upper).above() <= delta;
    }
    if (!found) return {};
    out = first;
    found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.lower = e - out;
        found = curve.value(plan, r.lower).below() >= delta;
    }
    if (!found) r.lower = 0;
    r.upper = larger(0.0, r.upper);
    r.lower = larger(0.0, r.lower);
    if (r.upper - r.lower > kWidest * r.upper) r.status = Status::inaccurate;
    return r;
}

template <class Curve>
TIGHTDP_HD_STAGE Result solve_delta(const Curve& curve, const Plan& plan, double epsilon) {
    const CurveValue v = curve.value(plan, epsilon);
    Result r = certified(v, 1);
    if (!(std::fabs(v.above()) < HUGE_VAL) || !(std::fabs(v.below()) < HUGE_VAL)) return {};
    constexpr double least = 2.2250738585072014e-308;
    r.upper = clamped(v.above() * (1 + 4 * kUnitRoundoff), least, 1.0);
    r.lower = clamped(v.below() * (1 - 4 * kUnitRoundoff), 0.0, 1.0);
    return r;
}

// epsilon: where the curve was asked, or an estimate of where it meets delta.
template <class Curve>
TIGHTDP_HD_STAGE Result solve(Curve& curve, const Plan& plan, bool by_delta, double at, double& epsilon) {
    curve.transform(plan);
    epsilon = by_delta ? plan.epsilon : at;
    Result r = by_delta ? solve_epsilon(curve, plan, at, epsilon) : solve_delta(curve, plan, at);
    r.nodes = curve.nodes();
    r.abscissae = plan.count + 1;
    return r;
}

// A plan serves e-folds of delta around the point that it was made for; beyond, aliases outgrow its
// tolerance.
inline constexpr double kNear = 3;
// Whatever the plan was made for.
inline constexpr double kNarrow = 1e-8;

template <class Curve>
TIGHTDP_HD_STAGE Result invert(Curve& curve, double tolerance, bool by_delta, double at) {
    Plan plan;
    Result r;
    curve.restart();
    r.status = Planner<Curve>(curve, tolerance, plan).make(by_delta, by_delta ? std::log(at) : at, 1);
    if (r.status != Status::certified) return r;
    double epsilon;
    r = solve(curve, plan, by_delta, at, epsilon);
    const bool near = plan.consistent && std::fabs(epsilon - plan.epsilon) * plan.c < kNear;
    const bool narrow = r.status == Status::certified && r.upper - r.lower <= kNarrow * r.upper;
    if (near || narrow || !(std::fabs(epsilon) < HUGE_VAL)) return r;
    // Solves once more with a plan made from the first solution.
    const double log_delta = std::log(by_delta ? at : r.upper);
    plan = {};
    curve.restart();
    if (Planner<Curve>(curve, tolerance, plan).make(false, epsilon, smaller(0.0, log_delta)) != Status::certified)
        return r;
    const Result better = solve(curve, plan, by_delta, at, epsilon);
    if (better.status != Status::certified) return r;
    return r.status != Status::certified || better.upper - better.lower < r.upper - r.lower ? better : r;
}

// epsilon(delta). distance: delta(0) at most, a sum of total variation distances; most: that no loss exceeds.
// ask(by_delta, at) inverts.
template <class Ask>
TIGHTDP_HD_STAGE Result least_epsilon(double distance, double most, double delta, const Ask& ask) {
    if (distance <= delta) {
        Result zero;
        zero.status = Status::certified;
        return zero;
    }
    Result r = ask(true, delta);
    if (r.status != Status::certified || r.lower == 0) {
        // The curve need not be followed to negative epsilon if delta(0) <= delta.
        Result zero = ask(false, 0.0);
        if (zero.status == Status::certified && zero.upper <= delta) {
            zero.lower = zero.upper = 0;
            return zero;
        }
    }
    r.upper = smaller(r.upper, most);
    return r;
}

}  // namespace tightdp::contour
