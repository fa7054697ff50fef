// Plan for the computation of a question: tilt, spacings, windows (docs/theory/grid.md, section 7). A bad plan costs
// width, never soundness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimate.hpp"
#include "lattice.hpp"

namespace tightdp::grid {

// One level: the law of the level before to the fourth power times single steps, on a lattice of its own.
struct Level {
    double h;
    std::size_t n;
    std::int64_t first;         // of the window, counted from the anchor of the composition
    Window window;              // what the lattice was fitted to
    std::vector<double> steps;  // how often each part is multiplied in at this level
    bool possible = true;       // false if indices would leave the range where doubles hold them exactly
};

struct Plan {
    double tilt = 1;
    std::vector<Level> levels;   // the first makes the product of steps, each later one quadruples
    std::vector<Range> ranges;   // of each part
    std::vector<double> scales;  // about the cumulant of each part at the tilt, less tilt * anchor
    std::size_t most_cells = 0;  // of one part on one level

    std::size_t points() const;  // of the largest level
};

// The place on the curve where a plan expects the answer. The first guess comes from the saddle, the next from a rough
// answer.
struct Target {
    double epsilon, log_delta;
    double margin;      // epsilon may be this much less; ln delta may be this much times the slope less
    double slope;       // -d ln delta / d epsilon
    double best_tilt;   // of the bound by one moment
    double log_width;   // asked width of ln delta
    double finer;       // asked width of the lattice over that
    double digits;      // -ln of the relative error of delta by rounding at the best tilt
    double log_tail;    // what the windows leave out shall change ln delta by at most e^{-log_tail}
    std::size_t most_points;
};

Plan make_plan(const std::vector<Part>& parts, const Sketches& sketches, const Target& target);

}  // namespace tightdp::grid
