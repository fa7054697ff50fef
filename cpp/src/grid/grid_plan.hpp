// The plan by which the engine computes one bound (docs/theory/grid.md, section 7). The plan has a tilt t: masses at
// losses y are multiplied by e^{ty}. The composition is computed in one or more levels (Level). For each level the plan
// has the spacing of a lattice of losses, and a window, the range of losses that the lattice covers. A bad plan makes
// the bounds wide, but never wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grid_weights.hpp"
#include "tilt_estimates.hpp"

namespace tightdp::grid {

// One level of a plan. Each level has a lattice of its own. The distribution of the first level is composed of single
// steps alone. The distribution of a later level is composed of four copies of the distribution of the level before,
// and of some single steps. A part is a mechanism of the composition, with its count. Lattice points are counted from
// an anchor, a loss that should be a lattice point (LossDistribution::anchor). The anchor of a composition is the sum
// of the anchors of its steps.
struct Level {
    double h;                   // spacing of the lattice
    std::size_t n;              // number of lattice points
    std::int64_t first;         // index of the window's first point, counted from the anchor of the composition
    Window window;              // the interval of losses that the lattice has to cover
    std::vector<double> steps;  // for each part, the number of single steps that this level adds
    bool possible = true;       // whether doubles represent all lattice indices exactly
};

struct Plan {
    double tilt = 1;
    std::vector<Level> levels;
    std::vector<Range> ranges;   // for each part, the losses that its lattice covers
    // An estimate for each part: ln E[e^{tY}] of its loss Y at the tilt t, minus t times the part's anchor. The
    // anchor is a loss that should be a lattice point (LossDistribution::anchor).
    std::vector<double> scales;
    std::size_t most_cells = 0;  // largest number of cells for one part on one level

    std::size_t count_plan_points() const;  // number of lattice points of the largest level
};

// The point (epsilon, ln delta) of the privacy curve near which a plan expects the answer. The first guess is the best
// bound by one moment E[e^{tY}] of the loss Y (Saddle in tilt_estimates.hpp). The next guess comes from a rough answer.
struct Target {
    double epsilon, log_delta;
    double margin;     // the true epsilon may be smaller by up to `margin`, and ln delta by up to margin * slope
    double slope;      // -d ln delta / d epsilon
    double best_tilt;  // the tilt of the best bound by one moment
    double log_width;  // ln of the requested width of ln delta
    double finer;      // the width that the lattice may cause, divided by the requested width
    double digits;     // -ln of the relative error that rounding is assumed to cause in delta at the best tilt
    double log_tail;   // the mass that windows leave out should change ln delta by at most e^{-log_tail}
    std::size_t most_points;
};

Plan make_grid_plan(const std::vector<Part>& parts, const Sketches& sketches, const Target& target);

}  // namespace tightdp::grid
