// The moment generating function (MGF) of one setting of a batch in one direction. A setting has a noise multiplier
// sigma, a sampling probability q and a number of steps. A team of threads ("lanes") computes the MGF on a device, in
// memory of a fixed size. The class implements the interface Curve of contour/inversion/plan.hpp
// (docs/theory/contour.md, sections 1 to 7).
//
// Preconditions: 1e-6 <= sigma <= 1e12, 0 < q < 1, and steps is an integer >= 1.
#pragma once

#include <cstdint>

#include "contour/inversion/invert.hpp"
#include "contour/tail_bound/batch_minorant_tail.hpp"

namespace tightdp::contour {

template <class Team>
class BatchCurve {
  public:
    // Newton's iteration for epsilon ends once |delta(epsilon) - delta| is at most this fraction of the certified error
    // of delta(epsilon).
    static constexpr double kEnough = 0.01;

    TIGHTDP_HD BatchCurve(const Team& team, BatchMemory& memory, const Pair& pair, double steps) noexcept
        : team_(team), m_(memory), mgf_(team, memory, pair, steps) {}

    TIGHTDP_HD double total_count() const noexcept { return mgf_.step_count(); }
    TIGHTDP_HD std::int64_t node_count() const noexcept { return mgf_.node_count(); }
    TIGHTDP_HD void restart_estimates() noexcept { reach_ = -1; }

    TIGHTDP_HD bool estimate_cumulants(double c, Cumulants& out) noexcept {
        if (c > reach_ && !place_nodes(2 * c, 0, std::log(1e4 * (1 + mgf_.step_count())))) return false;
        out = mgf_.estimate_cumulants(c);
        return true;
    }
    TIGHTDP_HD_STAGE Status choose_length(Plan& plan, double sd, double need, double log_inverse) noexcept;
    TIGHTDP_HD Status place_nodes_for_plan(const Plan& plan, double log_inverse) noexcept {
        const double length = static_cast<double>(plan.count) * plan.step;
        if (!place_nodes(max_value(plan.right.c, plan.c), length, log_inverse)) return Status::too_many_nodes;
        return mgf_.largest_mgf_node_loss() * length > kMostPhase ? Status::slow_decay : Status::certified;
    }
    TIGHTDP_HD CertifiedLogMgf certified_log_mgf(double c) const noexcept { return mgf_.log_mgf(c); }
    TIGHTDP_HD double log_mgf_upper(double c) const noexcept { return certified_log_mgf(c).upper(); }

    TIGHTDP_HD_STAGE void compute_ordinates(const Plan& plan) noexcept {
        const double rule = mgf_.compute_mgf_ratios(plan.c, plan.step, plan.count);
        for (std::int64_t m = team_.lane(); m <= plan.count; m += team_.size()) {
            LogRatio ratio;
            if (m > 0) ratio.add_trapezoid_log_power(m_.re[m], m_.im[m], rule, m_.round[m], mgf_.step_count());
            batch_ordinates().set_trapezoid_ordinate(m, ratio, plan.c, plan.step, 0);
        }
        team_.sync();
    }
    // The argument 6 covers the rounding errors of sines and cosines on a device (contour.md, section 7).
    TIGHTDP_HD CurveValue evaluate_curve(const Plan& plan, double epsilon) const noexcept {
        return evaluate_trapezoid_sum(team_, batch_ordinates(), plan, 6, epsilon);
    }

  private:
    TIGHTDP_HD Ordinates batch_ordinates() const noexcept { return {m_.re, m_.im, m_.rule, m_.round}; }
    TIGHTDP_HD bool place_nodes(double c_most, double s_most, double log_inverse) noexcept {
        reach_ = c_most;
        return mgf_.place_nodes(c_most, s_most, log_inverse);
    }

    const Team& team_;
    BatchMemory& m_;
    BatchMgf<Team> mgf_;
    double reach_ = -1;
};

// Chooses the length of the line of points c + i s. The line ends where the last range [s, 1.25 s] with too little
// decay ends, as in CompositionMgf::length_by_cells. The decay is -ln |M(c + i s)/M(c)| of the MGF M. Each lane bounds
// the decay in one range at a time.
template <class Team>
TIGHTDP_HD_STAGE Status BatchCurve<Team>::choose_length(Plan& plan, double sd, double need, double) noexcept {
    constexpr double ratio = 1.25;
    constexpr int most_levels = 120;
    const double count = mgf_.step_count();
    const BatchMinorantTail<Team> decay(mgf_, plan.c, min_value(1e-4, 0.01 / count), need > 0.01 * count);
    double length = std::sqrt(2 * need) / sd, s = length;
    for (int level = 0; level < most_levels; level += team_.size()) {
        if (length / plan.step > static_cast<double>(kBatchAbscissae)) return Status::slow_decay;
        double mine = s;
        for (int i = 0; i < team_.lane(); ++i) mine *= ratio;
        const bool inside = count * decay.log_decay(mine, ratio * mine) >= need;
        const bool beyond = inside && count * decay.log_decay(mine, HUGE_VAL) >= need;
        const std::uint32_t insides = team_.votes(inside), beyonds = team_.votes(beyond);
        for (int i = 0; i < team_.size(); ++i, s *= ratio) {
            if (!(insides >> i & 1u)) {
                length = ratio * s;
            } else if (beyonds >> i & 1u) {
                const double steps = std::ceil(length / plan.step) + 1;
                if (!(steps <= static_cast<double>(kBatchAbscissae))) return Status::slow_decay;
                plan.count = static_cast<std::int64_t>(steps);
                return Status::certified;
            }
        }
    }
    return Status::slow_decay;
}

}  // namespace tightdp::contour
