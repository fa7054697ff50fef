// epsilon(delta) of one setting, in one direction or the worse of both; docs/theory/contour.md, sections 1 to 7.
//
// Precondition and postcondition: batch_setting.hpp.
#pragma once

#include "batch_setting.hpp"
#include "trivial.hpp"

namespace tightdp::contour {

// As invert() in contour/engine.cpp: where no abscissa is a saddle point, the first answer says where to look.
template <class Team>
TIGHTDP_HD_STAGE BatchResult batch_invert(const Team& team, BatchMemory& memory, double sigma, double q, double steps, bool add,
                                    bool by_delta, double at, double tolerance) noexcept {
    BatchResult r;
    double epsilon = at, log_delta = 1;
    for (int round = 0; round < 2; ++round) {
        BatchInversion<Team> inversion(team, memory, sigma, q, steps, add, tolerance);
        const bool ready = round == 0 ? inversion.prepare(by_delta, by_delta ? std::log(at) : at)
                                      : inversion.prepare(false, epsilon, log_delta);
        if (!ready) return r;
        const BatchResult found = by_delta ? inversion.solve_epsilon(at) : inversion.solve_delta(at);
        if (round == 0) r = found;
        else if (found.certified && found.upper - found.lower < r.upper - r.lower) r = found;
        if (inversion.consistent() || !r.certified) return r;
        epsilon = by_delta ? r.upper : at;
        log_delta = smaller(0.0, std::log(by_delta ? at : r.upper));
    }
    return r;
}

template <class Team>
TIGHTDP_HD_STAGE BatchResult batch_epsilon(const Team& team, BatchMemory& memory, double sigma, double q, double steps,
                                     double delta, bool add, double tolerance) noexcept {
    BatchResult zero;
    zero.certified = true;
    zero.upper = 0;
    // Total variation distances add up at most: delta(0) <= delta means epsilon = 0.
    if (steps * total_variation(sigma, q) * (1 + 1e-14) <= delta) return zero;
    BatchResult r = batch_invert(team, memory, sigma, q, steps, add, true, delta, tolerance);
    if (!r.certified || r.lower == 0) {
        const BatchResult at_zero = batch_invert(team, memory, sigma, q, steps, add, false, 0.0, tolerance);
        if (at_zero.certified && at_zero.upper <= delta) return zero;
    }
    if (r.certified && add) r.upper = smaller(r.upper, steps * largest_add_loss(q) * (1 + 1e-14));
    return r;
}

// Both directions: bounds on epsilon under add_or_remove.
template <class Team>
TIGHTDP_HD_STAGE BatchResult batch_epsilon(const Team& team, BatchMemory& memory, double sigma, double q, double steps,
                                     double delta, double tolerance) noexcept {
    BatchResult r = batch_epsilon(team, memory, sigma, q, steps, delta, false, tolerance);
    if (!r.certified) return r;
    const BatchResult add = batch_epsilon(team, memory, sigma, q, steps, delta, true, tolerance);
    if (!add.certified) return {};
    r.lower = larger(r.lower, add.lower);
    r.upper = larger(r.upper, add.upper);
    r.nodes = r.nodes > add.nodes ? r.nodes : add.nodes;
    r.abscissae = r.abscissae > add.abscissae ? r.abscissae : add.abscissae;
    return r;
}

}  // namespace tightdp::contour
