#include "plan.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "aliasing.hpp"
#include "quadrature.hpp"

namespace tightdp::contour {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Beyond these the grid engine is faster.
constexpr double kMaxAbscissae = 1 << 17;
constexpr double kMaxProducts = 3e7;

class Planner {
  public:
    Planner(Cumulant& cumulant, double tolerance, Plan& plan)
        : cumulant_(cumulant), tolerance_(std::clamp(tolerance, 1e-13, 1e-2)), plan_(plan) {}

    Status make(bool by_delta, double target, double known_log_delta);

  private:
    bool choose_period();
    bool balance(bool by_delta, double target);
    double lost() const;
    double log_tolerated() const { return plan_.log_delta + std::log(0.25 * tolerance_); }
    bool choose_length(double log_needed, double log_inverse);
    double reach(double log_inverse) const;

    Cumulant& cumulant_;
    double tolerance_;
    Plan& plan_;
    Cumulants k_;        // at the abscissa
    double sd_ = 0;      // of the law tilted there
    double widths_ = 4;  // from there to the right auxiliary abscissa, in units of 1/sd
};

bool Planner::choose_period() {
    constexpr double ratio = 1.4, nearest = 1e-3, farthest = 30;
    const double unit = 1 / sd_;
    plan_.left = plan_.right = {};
    for (double fraction : {0.0, 0.15, 0.3, 0.45, 0.6}) {
        const double c = fraction * plan_.c;
        double log_chernoff = 0;
        if (c > 0) {
            Cumulants k;
            if (!cumulant_.at(c, k)) return false;
            log_chernoff = k.k0 + log_kappa(c) - c * plan_.epsilon;
        }
        const double period = alias_period(log_chernoff, plan_.c - c, log_tolerated());
        if (period < plan_.left.period) plan_.left = {c, period};
    }
    // The period asked for is a quasi-convex function of the auxiliary abscissa: walk to its minimum, from
    // where it was found last.
    const auto better_right = [&](double widths) {
        if (!(widths > nearest && widths < farthest)) return false;
        const double c = plan_.c + widths * unit;
        Cumulants k;
        if (!cumulant_.at(c, k)) return false;
        const double period =
            alias_period(k.k0 + log_kappa(c) - c * plan_.epsilon, c - plan_.c, log_tolerated());
        if (!(period < plan_.right.period)) return false;
        plan_.right = {c, period};
        widths_ = widths;
        return true;
    };
    const double start = widths_;
    better_right(start);
    bool rising = false;
    for (double widths = start * ratio; better_right(widths); widths *= ratio) rising = true;
    for (double widths = start / ratio; !rising && widths > nearest; widths /= ratio)
        if (!better_right(widths) && std::isfinite(plan_.right.period)) break;
    const double period = std::max({plan_.left.period, plan_.right.period, sd_});
    plan_.step = 2 * kPi / period;
    return std::isfinite(period);
}

// The most that abscissae may stretch: to the caps.
double Planner::reach(double log_inverse) const {
    double s = kMaxAbscissae * plan_.step;
    for (; s > plan_.step; s *= 0.8) {
        double nodes = 0;
        for (const Part& part : cumulant_.parts())
            nodes += part.nodes_for(std::max(plan_.right.c, plan_.c), s, log_inverse);
        if (nodes * (s / plan_.step) <= kMaxProducts) break;
    }
    return s;
}

bool Planner::choose_length(double log_needed, double log_inverse) {
    // Levels of abscissae, a factor 1.25 apart; past the last level that decays too little, all do.
    constexpr double ratio = 1.25;
    constexpr int most_levels = 120;
    const double need = std::max(log_needed, 3.0);
    auto& parts = cumulant_.parts();
    std::vector<Decay> decays(parts.size());
    for (std::size_t j = 0; j < parts.size(); ++j)
        parts[j].build_decay(plan_.c, std::min(1e-4, 0.01 / cumulant_.total_count()), decays[j]);
    const auto decay_between = [&](double low, double high) {
        double total = 0.5 * cumulant_.mu2() * low * low;
        for (std::size_t j = 0; j < decays.size() && total < need; ++j)
            total += parts[j].count() * decays[j].log_decay(low, high);
        return total;
    };
    const double reach = this->reach(log_inverse);
    for (std::size_t j = 0; j < parts.size(); ++j)
        if (need > 0.01 * parts[j].count()) decays[j].sample();
    // What does not decay at the end of reach does not decay within.
    if (decay_between(reach, 1.05 * reach) < need) return false;
    double length = std::sqrt(2 * need) / sd_, s = length;
    for (int level = 0; level < most_levels; ++level, s *= ratio) {
        if (length > ratio * reach) return false;
        if (decay_between(s, ratio * s) < need) {
            length = ratio * s;
            continue;
        }
        if (decay_between(s, kInfinity) >= need) {
            plan_.count = static_cast<long>(std::ceil(length / plan_.step)) + 1;
            plan_.log_decay = -need;
            return true;
        }
    }
    return false;
}

// ln of |g(0)| over delta: the digits that the sum loses by cancellation, least at the saddle point.
double Planner::lost() const {
    return k_.k0 - plan_.c * plan_.epsilon - std::log(plan_.c) - std::log1p(plan_.c) - plan_.log_delta;
}

// Moves the abscissa towards 0 while that shortens the period.
bool Planner::balance(bool by_delta, double target) {
    double period = plan_.consistent ? 2 * kPi / plan_.step : kInfinity;
    // e^8 still leaves twelve digits.
    const double most_lost = std::max(8.0, lost() + 3);
    for (int i = 0; i < 40; ++i) {
        const auto before = std::tuple(plan_, k_, sd_);
        plan_.c *= 0.85;
        Cumulants k;
        if (!cumulant_.at(plan_.c, k) || !(k.k2 > 0)) return false;
        k_ = k;
        sd_ = std::sqrt(k.k2);
        if (!plan_.consistent) {
            if (by_delta)
                plan_.epsilon = normal_epsilon(plan_.c, k, target);
            else
                plan_.log_delta = std::min(0.0, normal_log_delta(plan_.c, k, target));
        }
        const bool found = (lost() < most_lost || !std::isfinite(period)) && choose_period();
        if (found && 2 * kPi / plan_.step < period) {
            period = 2 * kPi / plan_.step;
        } else if (std::isfinite(period)) {
            std::tie(plan_, k_, sd_) = before;
            break;
        }
    }
    return std::isfinite(period);
}

Status Planner::make(bool by_delta, double target, double known_log_delta) {
    // First guess: the Gaussian of equal variance.
    double variance = cumulant_.mu2(), c_first = 1;
    {
        Cumulants k;
        if (!cumulant_.at(0.5, k)) return Status::too_many_nodes;
        variance = std::max(k.k2, 1e-300);
        c_first = by_delta ? std::sqrt(2 * std::max(0.5, -target) / variance)
                           : std::max(1.0, (target - k.k1) / variance);
        c_first = std::min(c_first, 30.0);
    }
    Saddle saddle{};
    if (!find_saddle(cumulant_, by_delta, target, c_first, saddle)) return Status::too_many_nodes;
    k_ = saddle.k;
    plan_.epsilon = by_delta ? saddle.epsilon : target;
    plan_.log_delta = by_delta ? target : std::min(0.0, saddle.log_delta);
    if (known_log_delta <= 0) plan_.log_delta = known_log_delta;
    sd_ = std::sqrt(k_.k2);
    if (!(sd_ > 0)) return Status::slow_decay;
    plan_.c = saddle.c;
    // Where the law has a far lobe (small q, large sigma) the tilt jumps across it and no abscissa is a
    // saddle point.
    plan_.consistent = known_log_delta <= 0 || (by_delta ? std::abs(saddle.log_delta - target) < 0.5
                                                         : std::abs(saddle.epsilon - target) * plan_.c < 0.5);
    // The pole at 0 is kept two widths away if that can be had without tilting into such a lobe (where the
    // variance jumps): nearer, the left tail of e^{cx} delta(x) is long.
    for (double widths = 2; plan_.consistent && widths > plan_.c * sd_; widths *= 0.8) {
        Cumulants k;
        if (!cumulant_.at(widths / sd_, k) || k.k2 > 1.5 * sd_ * sd_) continue;
        plan_.c = widths / sd_;
        sd_ = std::sqrt(k.k2);
        k_ = k;
        break;
    }
    if (!choose_period()) return Status::too_many_nodes;
    if (!plan_.consistent || plan_.right.period > 2 * plan_.left.period)
        if (!balance(by_delta, target)) return Status::too_many_nodes;
    const double log_inverse =
        std::log(32 * (1 + cumulant_.total_count()) / tolerance_) + std::max(0.0, lost());
    // Truncation: e^{K - c eps} rho / (pi S) within the tolerance, S at least one width.
    const double log_front = k_.k0 - plan_.c * plan_.epsilon;
    if (!choose_length(log_front + std::log(sd_ / kPi) - log_tolerated(), log_inverse))
        return Status::slow_decay;
    if (!cumulant_.place(std::max(plan_.right.c, plan_.c), plan_.count * plan_.step, log_inverse, kMaxNodes))
        return Status::too_many_nodes;
    double products = 0;
    for (const Part& part : cumulant_.parts()) {
        products += static_cast<double>(part.nodes()) * plan_.count;
        if (part.largest_loss() * plan_.step * plan_.count > 1e5) return Status::slow_decay;
    }
    if (products > kMaxProducts) return Status::slow_decay;
    plan_.k = cumulant_.certified(plan_.c);
    if (plan_.left.c > 0) plan_.left.k = cumulant_.certified(plan_.left.c);
    plan_.right.k = cumulant_.certified(plan_.right.c);
    if (!std::isfinite(plan_.k.upper() + plan_.left.k.upper() + plan_.right.k.upper()))
        return Status::inaccurate;
    return Status::certified;
}

}  // namespace

Status make_plan(Cumulant& cumulant, double tolerance, bool by_delta, double target, double known_log_delta,
                 Plan& plan) {
    plan = {};
    return Planner(cumulant, tolerance, plan).make(by_delta, target, known_log_delta);
}

}  // namespace tightdp::contour
