// The plan of an inversion: abscissa, step and length of the trapezoid sum (docs/theory/contour.md, sections 1 to 3).
// The sum inverts M, the moment generating function of the privacy loss, along the line of all c + is with real s. The
// line's abscissa is c > 0.
// The result contains copies of the curve delta(epsilon), shifted by multiples of the period 2 pi / step. The resulting
// aliasing error is bounded by M at two auxiliary abscissae, one on each side of c.
//
// A Curve is the moment generating function M of a composition. contour/composition_mgf.hpp implements a Curve on the
// host, and contour/batch/batch_curve.hpp on a device. Below, sd is the standard deviation of the privacy loss y,
// tilted by the factor e^{cy} / M(c). The argument log_inverse means that the moment generating function of one step
// may have the relative error e^-log_inverse. A Curve has
//     bool estimate_cumulants(c, Cumulants&)
//                                         estimates ln M and its derivatives; returns false if there are too many nodes
//     double total_count()                returns the number of steps
//     Status choose_length(plan, sd, need, log_inverse)
//                                         sets plan.count, so that |M(c + is)/M(c)| <= e^-need beyond the line's end
//     Status place_nodes_for_plan(plan, log_inverse)
//                                         places nodes that are precise enough for the plan
//     CertifiedLogMgf certified_log_mgf(c)
//                                         returns ln M at the plan's abscissa, from these nodes
//     double log_mgf_upper(c)             returns an upper bound on ln M at an auxiliary abscissa of the plan
//     void restart_estimates()            forgets the nodes, so that the next estimate places nodes anew
#pragma once

#include <cmath>
#include <cstdint>

#include "aliasing.hpp"
#include "contour/mgf/mgf_moments.hpp"
#include "contour/result.hpp"
#include "saddle.hpp"

namespace tightdp::contour {

// The aliasing error from one side: the auxiliary abscissa, the period that it requires, and an upper bound on ln M at
// the auxiliary abscissa.
struct AliasSide {
    double c = 0, period = HUGE_VAL;
    double k = 0;
};

struct Plan {
    double c = 0;          // the abscissa
    double epsilon = 0;    // epsilon, or an estimate of it if delta was given
    double log_delta = 0;  // ln delta, or an estimate of it if epsilon was given
    // Whether the estimate of epsilon or log_delta is near the result. It is near if the search for the saddle point
    // met the target, or if the plan is made from a first solution (invert.hpp). Otherwise, balance_periods() chooses
    // c.
    bool consistent = false;
    double step = 0;
    std::int64_t count = 0;  // the sum runs over the points c + i m step, m = 0..count
    double log_decay = 0;    // |M(c + is)/M(c)| <= e^log_decay is proved for s >= count * step
    AliasSide left, right;
    CertifiedLogMgf k{};
};

// Largest phase, the argument of a sine and a cosine, that is reduced precisely enough (contour.md, section 5.2).
inline constexpr double kMostPhase = 1e5;

// Finds the saddle point (saddle.hpp) by Newton's method in ln c within a bracket, and writes it to `best`. `target` is
// ln delta if `by_delta`, and epsilon otherwise. Let V be saddle_curvature(). As c grows, ln delta falls at the rate
// c V, and epsilon grows at the rate V. Returns false if there are too many nodes.
template <class Curve>
TIGHTDP_HD_STAGE bool find_saddle(Curve& curve, bool by_delta, double target, double c_first, Saddle& best) {
    double low = 1e-13, high = 1e13, c = clamp_value(c_first, 1e-6, 1e6);
    for (int i = 0; i < 60; ++i) {
        Cumulants k;
        if (!curve.estimate_cumulants(c, k)) return false;
        best = saddle_at(c, k);
        const double gap = by_delta ? best.log_delta - target : target - best.epsilon;
        (gap > 0 ? low : high) = c;
        const double step = gap / (c * saddle_curvature(c, k) * (by_delta ? c : 1));
        if (!(std::fabs(step) < HUGE_VAL)) return false;
        // The abscissa need not be precise, because epsilon is found later by Newton's method on the sum itself.
        if (std::fabs(gap) * (by_delta ? 1 : c) < 0.02) return true;
        double next = c * std::exp(clamp_value(step, -1.5, 1.5));
        if (!(next > low && next < high)) next = std::sqrt(low * high);
        if (high / low < 1 + 1e-9) return true;
        c = next;
    }
    return true;
}

template <class Curve>
class Planner {
  public:
    TIGHTDP_HD Planner(Curve& curve, double tolerance, Plan& plan)
        : curve_(curve), tolerance_(clamp_value(tolerance, 1e-13, 1e-2)), plan_(plan) {}

    // Makes the plan, and makes the curve place nodes that are precise enough for the plan. `target` is ln delta if
    // `by_delta`, and epsilon otherwise. known_log_delta is 1 unless invert_contour_curve() has solved with an earlier
    // plan. In that case `target` is an epsilon, and known_log_delta is ln delta at this epsilon, computed with the
    // earlier plan.
    TIGHTDP_HD_STAGE Status make_plan(bool by_delta, double target, double known_log_delta);

  private:
    // Chooses the auxiliary abscissae that allow the smallest period with a tolerated aliasing error, and sets the step
    // to 2 pi / period. Returns false if there are too many nodes or no finite period.
    TIGHTDP_HD_STAGE bool choose_period();
    // Tries the right auxiliary abscissa at the distance widths / sd_. Keeps this abscissa and returns true if it
    // requires a smaller period than the current one.
    TIGHTDP_HD_STAGE bool improve_right_abscissa(double widths);
    // Moves the abscissa towards 0 to shorten the period. Returns false if there is no finite period.
    TIGHTDP_HD_STAGE bool balance_periods(bool by_delta, double target);
    // Return ln of the error of delta that is tolerated from one source, and ln of the factor M(c) e^{-c eps}.
    TIGHTDP_HD double log_tolerated() const { return plan_.log_delta + std::log(0.25 * tolerance_); }
    TIGHTDP_HD double log_inversion_front_factor() const { return k_.k0 - plan_.c * plan_.epsilon; }
    // Returns ln(|g(0)| / delta), where g is the integrand of contour.md, section 1. This logarithm measures the digits
    // that the sum loses by cancellation, and is smallest at the saddle point.
    TIGHTDP_HD double log_inversion_cancellation() const {
        return log_inversion_front_factor() - std::log(plan_.c) - std::log1p(plan_.c) - plan_.log_delta;
    }

    Curve& curve_;
    double tolerance_;
    Plan& plan_;
    Cumulants k_;        // cumulants at the abscissa
    double sd_ = 0;      // standard deviation of the privacy loss y, tilted by the factor e^{cy} / M(c)
    double widths_ = 4;  // distance from the abscissa to the right auxiliary abscissa, in units of 1/sd
};

// Smallest and largest distance of the right auxiliary abscissa from the abscissa, in units of 1/sd.
inline constexpr double kNearestRight = 1e-3, kFarthestRight = 30;

template <class Curve>
TIGHTDP_HD_STAGE bool Planner<Curve>::improve_right_abscissa(double widths) {
    if (!(widths > kNearestRight && widths < kFarthestRight)) return false;
    const double unit = 1 / sd_, c = plan_.c + widths * unit;
    Cumulants k;
    if (!curve_.estimate_cumulants(c, k)) return false;
    const double period = alias_period(k.k0 + log_aliasing_kappa(c) - c * plan_.epsilon, c - plan_.c, log_tolerated());
    if (!(period < plan_.right.period)) return false;
    plan_.right = {c, period};
    widths_ = widths;
    return true;
}

template <class Curve>
TIGHTDP_HD_STAGE bool Planner<Curve>::choose_period() {
    plan_.left = plan_.right = {};
    const double fractions[] = {0.0, 0.15, 0.3, 0.45, 0.6};
    for (const double fraction : fractions) {
        const double c = fraction * plan_.c;
        double log_chernoff = 0;
        if (c > 0) {
            Cumulants k;
            if (!curve_.estimate_cumulants(c, k)) return false;
            log_chernoff = k.k0 + log_aliasing_kappa(c) - c * plan_.epsilon;
        }
        const double period = alias_period(log_chernoff, plan_.c - c, log_tolerated());
        if (period < plan_.left.period) plan_.left = {c, period};
    }
    // The required period falls and then rises with the auxiliary abscissa. The search for the minimum begins at the
    // minimum that was found last.
    constexpr double ratio = 1.4;
    const double start = widths_;
    improve_right_abscissa(start);
    bool rising = false;
    for (double widths = start * ratio; improve_right_abscissa(widths); widths *= ratio) rising = true;
    for (double widths = start / ratio; !rising && widths > kNearestRight; widths /= ratio)
        if (!improve_right_abscissa(widths) && plan_.right.period < HUGE_VAL) break;
    const double period = max_value(max_value(plan_.left.period, plan_.right.period), sd_);
    plan_.step = 2 * kPi / period;
    return period < HUGE_VAL;
}

// Moves the abscissa towards 0 until a period is found, and then as long as each move shortens the period. If the plan
// is not consistent, epsilon (if delta is given) or log_delta (otherwise) is estimated anew after each move.
template <class Curve>
TIGHTDP_HD_STAGE bool Planner<Curve>::balance_periods(bool by_delta, double target) {
    double period = plan_.consistent ? 2 * kPi / plan_.step : HUGE_VAL;
    // Cancellation by a factor of e^8 leaves twelve of the sixteen digits of a double. If the first abscissa loses more
    // than e^5, the moves may lose another factor of e^3.
    const double most_lost = max_value(8.0, log_inversion_cancellation() + 3);
    for (int i = 0; i < 40; ++i) {
        const Plan plan_before = plan_;
        const Cumulants k_before = k_;
        const double sd_before = sd_;
        plan_.c *= 0.85;
        Cumulants k;
        if (!curve_.estimate_cumulants(plan_.c, k) || !(k.k2 > 0)) return false;
        k_ = k;
        sd_ = std::sqrt(k.k2);
        if (!plan_.consistent) {
            if (by_delta)
                plan_.epsilon = estimate_saddle_epsilon(plan_.c, k, target);
            else
                plan_.log_delta = min_value(0.0, estimate_saddle_log_delta(plan_.c, k, target));
        }
        const bool found = (log_inversion_cancellation() < most_lost || !(period < HUGE_VAL)) && choose_period();
        if (found && 2 * kPi / plan_.step < period) {
            period = 2 * kPi / plan_.step;
        } else if (period < HUGE_VAL) {
            plan_ = plan_before;
            k_ = k_before;
            sd_ = sd_before;
            break;
        }
    }
    return period < HUGE_VAL;
}

template <class Curve>
TIGHTDP_HD_STAGE Status Planner<Curve>::make_plan(bool by_delta, double target, double known_log_delta) {
    // The first guess for c is the saddle point of a Gaussian with the same variance.
    Cumulants k;
    if (!curve_.estimate_cumulants(0.5, k)) return Status::too_many_nodes;
    const double variance = max_value(k.k2, 1e-300);
    const double guess =
        by_delta ? std::sqrt(2 * max_value(0.5, -target) / variance) : max_value(1.0, (target - k.k1) / variance);
    Saddle saddle{};
    if (!find_saddle(curve_, by_delta, target, min_value(guess, 30.0), saddle)) return Status::too_many_nodes;
    k_ = saddle.k;
    plan_.epsilon = by_delta ? saddle.epsilon : target;
    plan_.log_delta = by_delta ? target : min_value(0.0, saddle.log_delta);
    if (known_log_delta <= 0) plan_.log_delta = known_log_delta;
    sd_ = std::sqrt(k_.k2);
    if (!(sd_ > 0)) return Status::slow_decay;
    plan_.c = saddle.c;
    // If the sampling probability is small and the noise large, the tilted distribution has a second peak far to the
    // right. As c grows, the mean of the tilted distribution jumps to this peak. Then no abscissa is a saddle point for
    // some epsilons, and the search above misses the target.
    plan_.consistent = known_log_delta <= 0 || (by_delta ? std::fabs(saddle.log_delta - target) < 0.5
                                                         : std::fabs(saddle.epsilon - target) * plan_.c < 0.5);
    // If c is close to 0, which is a pole of the integrand, e^{cx} delta(x) has a long left tail, and the period would
    // be large. Therefore an abscissa below 2/sd is moved up to 2/sd. The move is shorter if a second, far peak makes
    // the variance of the tilted distribution jump.
    for (double widths = 2; plan_.consistent && widths > plan_.c * sd_; widths *= 0.8) {
        if (!curve_.estimate_cumulants(widths / sd_, k) || k.k2 > 1.5 * sd_ * sd_) continue;
        plan_.c = widths / sd_;
        sd_ = std::sqrt(k.k2);
        k_ = k;
        break;
    }
    if (!choose_period()) return Status::too_many_nodes;
    if (!plan_.consistent || plan_.right.period > 2 * plan_.left.period)
        if (!balance_periods(by_delta, target)) return Status::too_many_nodes;
    const double log_inverse =
        std::log(32 * (1 + curve_.total_count()) / tolerance_) + max_value(0.0, log_inversion_cancellation());
    // The truncation error e^{K - c eps} rho / (pi S) must be within the tolerance. Here K = ln M(c), and S is the end
    // of the line, which is at least 1/sd. rho is a bound on |M(c + is)/M(c)| for s >= S.
    const double need = max_value(log_inversion_front_factor() + std::log(sd_ / kPi) - log_tolerated(), 3.0);
    Status status = curve_.choose_length(plan_, sd_, need, log_inverse);
    if (status != Status::certified) return status;
    plan_.log_decay = -need;
    status = curve_.place_nodes_for_plan(plan_, log_inverse);
    if (status != Status::certified) return status;
    plan_.k = curve_.certified_log_mgf(plan_.c);
    if (plan_.left.c > 0) plan_.left.k = curve_.log_mgf_upper(plan_.left.c);
    plan_.right.k = curve_.log_mgf_upper(plan_.right.c);
    const double uppers = plan_.k.upper() + plan_.left.k + plan_.right.k;
    return std::fabs(uppers) < HUGE_VAL ? Status::certified : Status::inaccurate;
}

}  // namespace tightdp::contour
