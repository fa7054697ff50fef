// Bounds on epsilon(delta) of one setting (sigma, q, steps): a number of Poisson-subsampled Gaussian steps with the
// noise multiplier sigma and the sampling probability q. The bounds are for one direction, or for the worse of the
// directions "add" and "remove" (docs/theory/contour.md, sections 1 to 7).
//
// Preconditions: 1e-6 <= sigma <= 1e12, 0 < q < 1, steps is an integer >= 1, and 0 < delta < 1. `tolerance` is the
// intended relative error of delta, in [1e-13, 1e-2]. If the result is certified, lower <= epsilon(delta) <= upper.
// Otherwise the setting is declined.
#pragma once

#include "batch_curve.hpp"
#include "contour/direct_bounds.hpp"

namespace tightdp::contour {

// Bounds epsilon in one direction.
template <class Team>
TIGHTDP_HD_STAGE Result batch_epsilon(const Team& team, BatchMemory& memory, const Pair& pair, double steps,
                                      double delta, double tolerance) noexcept {
    const double more = 1 + 18 * kUnitRoundoff;  // covers the rounding errors of the next two lines
    const double distance = steps * bound_contour_step_delta_directly(pair.sigma, pair.q) * more;
    const double most = pair.is_contour_add() ? steps * bound_contour_add_loss_directly(pair.q) * more : HUGE_VAL;
    BatchCurve<Team> curve(team, memory, pair, steps);
    return least_epsilon(distance, most, delta, [&](bool by_delta, double at) {
        return invert_contour_curve(curve, tolerance, by_delta, at);
    });
}

// Bounds epsilon under add_or_remove. The result is the larger of the results for the two directions.
template <class Team>
TIGHTDP_HD_STAGE Result batch_epsilon(const Team& team, BatchMemory& memory, double sigma, double q, double steps,
                                      double delta, double tolerance) noexcept {
    const auto of = [&](Direction direction) {
        return batch_epsilon(team, memory, {sigma, q, direction}, steps, delta, tolerance);
    };
    const Result remove = of(Direction::remove);
    return remove.status == Status::certified ? worse_result(remove, of(Direction::add)) : remove;
}

}  // namespace tightdp::contour
