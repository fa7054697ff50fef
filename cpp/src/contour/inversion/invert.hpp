// Certified bounds on delta(epsilon) and epsilon(delta) of a Curve (plan.hpp) by the trapezoid sum
// (docs/theory/contour.md, sections 1 and 6). In addition to the members that the planner uses, a Curve has
//     void compute_ordinates(plan)        computes the ordinates of the trapezoid sum (trapezoid_sum.hpp)
//     CurveValue evaluate_curve(plan, epsilon)
//                                         computes the sum at epsilon from the ordinates
//     long node_count()                   returns the number of nodes
//     kEnough                             Newton's iteration ends when the sum misses delta by less than
//                                         kEnough times the error of the sum
#pragma once

#include "trapezoid_sum.hpp"

namespace tightdp::contour {

// Returns a certified result with the error terms of a value, multiplied by `unit`.
TIGHTDP_HD inline Result certified_inversion_result(const CurveValue& v, double unit) noexcept {
    Result r;
    r.status = Status::certified;
    r.aliasing = v.aliasing * unit;
    r.truncation = v.truncation * unit;
    r.quadrature = v.quadrature * unit;
    r.rounding = v.rounding * unit;
    return r;
}

// Finds the root e of S(e) = delta, where S(e) is the trapezoid sum at the epsilon e. If S(e) does not exceed its own
// error, or does not fall at e, then e is taken to be right of the root.
template <class Curve>
TIGHTDP_HD_STAGE bool find_trapezoid_root(const Curve& curve, const Plan& plan, double delta, double& e,
                                          CurveValue& v) {
    double low = -HUGE_VAL, high = HUGE_VAL, back = 1 / plan.c;
    e = plan.epsilon;
    v = curve.evaluate_curve(plan, e);
    for (int i = 0; i < 60; ++i) {
        double next;
        if (v.delta > v.trapezoid_delta_error() && v.slope < 0) {
            (v.delta > delta ? low : high) = e;
            // Newton's method for ln delta as a function of epsilon. This function is nearly linear in most places. If
            // the density of the loss has a peak, the slope changes quickly where epsilon passes the end of the peak.
            const double move = v.delta * std::log(v.delta / delta) / -v.slope, gap = std::fabs(v.delta - delta);
            next = e + clamp_value(move, -20 / plan.c, 20 / plan.c);
            if (std::fabs(move) <= 1e-14 * std::fabs(e) || gap <= 1e-15 * delta ||
                gap < Curve::kEnough * v.trapezoid_delta_error())
                break;
            if (!(next > low && next < high)) next = 0.5 * (low + high);
        } else {
            high = e;
            next = low > -HUGE_VAL ? 0.5 * (low + high) : e - back;
            back *= 2;
        }
        e = next;
        v = curve.evaluate_curve(plan, e);
    }
    return v.delta > 0 && v.slope < 0;
}

// Largest relative width of a certified result.
inline constexpr double kWidest = 0.5;

// Bounds epsilon(delta), and sets e to an estimate of epsilon(delta).
template <class Curve>
TIGHTDP_HD_STAGE Result invert_for_epsilon(const Curve& curve, const Plan& plan, double delta, double& e) {
    CurveValue v;
    if (!find_trapezoid_root(curve, plan, delta, e, v)) return {};
    Result r = certified_inversion_result(v, 1 / -v.slope);
    const double first =
        1.01 * (v.trapezoid_delta_error() + std::fabs(v.delta - delta)) / -v.slope + 4 * kUnitRoundoff * std::fabs(e);
    // Moves the upper and then the lower end outwards until bounds on delta prove that epsilon is between them.
    double out = first;
    bool found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.upper = e + out;
        found = curve.evaluate_curve(plan, r.upper).upper_trapezoid_delta() <= delta;
    }
    if (!found) return {};
    out = first;
    found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.lower = e - out;
        found = curve.evaluate_curve(plan, r.lower).lower_trapezoid_delta() >= delta;
    }
    if (!found) r.lower = 0;
    r.upper = max_value(0.0, r.upper);
    r.lower = max_value(0.0, r.lower);
    if (r.upper - r.lower > kWidest * r.upper) r.status = Status::inaccurate;
    return r;
}

// Bounds delta(epsilon).
template <class Curve>
TIGHTDP_HD_STAGE Result invert_for_delta(const Curve& curve, const Plan& plan, double epsilon) {
    const CurveValue v = curve.evaluate_curve(plan, epsilon);
    Result r = certified_inversion_result(v, 1);
    if (!(std::fabs(v.upper_trapezoid_delta()) < HUGE_VAL) || !(std::fabs(v.lower_trapezoid_delta()) < HUGE_VAL))
        return {};
    constexpr double least = 2.2250738585072014e-308;
    r.upper = clamp_value(v.upper_trapezoid_delta() * (1 + 4 * kUnitRoundoff), least, 1.0);
    r.lower = clamp_value(v.lower_trapezoid_delta() * (1 - 4 * kUnitRoundoff), 0.0, 1.0);
    return r;
}

// Bounds epsilon at the delta `at` if `by_delta`, and sets `epsilon` to an estimate of the result. Otherwise, bounds
// delta at the epsilon `at`, and sets `epsilon` to `at`.
template <class Curve>
TIGHTDP_HD_STAGE Result solve_with_plan(Curve& curve, const Plan& plan, bool by_delta, double at, double& epsilon) {
    curve.compute_ordinates(plan);
    epsilon = by_delta ? plan.epsilon : at;
    Result r = by_delta ? invert_for_epsilon(curve, plan, at, epsilon) : invert_for_delta(curve, plan, at);
    r.nodes = curve.node_count();
    r.abscissae = plan.count + 1;
    return r;
}

// Limit of c |epsilon - plan.epsilon| for a result that is accepted without a second plan. The product is about the
// difference of ln delta at the two epsilons. Beyond the limit, the aliasing error exceeds the tolerance.
inline constexpr double kNear = 3;
// Relative width up to which a result is accepted at any distance from plan.epsilon.
inline constexpr double kNarrow = 1e-8;

// Makes a plan and solves with it. `by_delta` and `at` have the same meaning as in solve_with_plan().
template <class Curve>
TIGHTDP_HD_STAGE Result invert_contour_curve(Curve& curve, double tolerance, bool by_delta, double at) {
    Plan plan;
    Result r;
    curve.restart_estimates();
    r.status = Planner<Curve>(curve, tolerance, plan).make_plan(by_delta, by_delta ? std::log(at) : at, 1);
    if (r.status != Status::certified) return r;
    double epsilon;
    r = solve_with_plan(curve, plan, by_delta, at, epsilon);
    const bool near = plan.consistent && std::fabs(epsilon - plan.epsilon) * plan.c < kNear;
    const bool narrow = r.status == Status::certified && r.upper - r.lower <= kNarrow * r.upper;
    if (near || narrow || !(std::fabs(epsilon) < HUGE_VAL)) return r;
    // Solves once more with a plan made from the first solution.
    const double log_delta = std::log(by_delta ? at : r.upper);
    plan = {};
    curve.restart_estimates();
    if (Planner<Curve>(curve, tolerance, plan).make_plan(false, epsilon, min_value(0.0, log_delta)) !=
        Status::certified)
        return r;
    const Result better = solve_with_plan(curve, plan, by_delta, at, epsilon);
    if (better.status != Status::certified) return r;
    return r.status != Status::certified || better.upper - better.lower < r.upper - r.lower ? better : r;
}

// Bounds epsilon(delta). `distance` is an upper bound on delta(0), the sum of the deltas of all steps at epsilon 0.
// `most` is an upper bound on the loss. ask(by_delta, at) computes a result as invert_contour_curve() does.
template <class Ask>
TIGHTDP_HD_STAGE Result least_epsilon(double distance, double most, double delta, const Ask& ask) {
    if (distance <= delta) {
        Result zero;
        zero.status = Status::certified;
        return zero;
    }
    Result r = ask(true, delta);
    if (r.status != Status::certified || r.lower == 0) {
        // If delta(0) <= delta, epsilon is 0, whatever the curve does at negative epsilon.
        Result zero = ask(false, 0.0);
        if (zero.status == Status::certified && zero.upper <= delta) {
            zero.lower = zero.upper = 0;
            return zero;
        }
    }
    r.upper = min_value(r.upper, most);
    return r;
}

}  // namespace tightdp::contour
