// How a question will be computed: tilt, spacings, windows (docs/theory/grid.md, section 7). A bad plan costs width,
// never soundness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grid_estimate.hpp"
#include "grid_lattice.hpp"

namespace tightdp::grid {

// One level: the law of the level before to the fourth power times single steps, on a lattice of its own.
struct Level {
    double h;
    std::size_t n;
    std::int64_t first;  // of the window, counted from the anchor of the composition
    double further_right, further_left;
    std::vector<double> steps;  // how often each part is multiplied in at this level
};

struct Plan {
    double tilt = 1;
    std::vector<Level> levels;   // the first makes the product of steps, each later one quadruples
    std::vector<Range> ranges;   // of each part
    std::vector<double> scales;  // about the cumulant of each part at the tilt
    double log_tail = 0;         // what the windows leave out is below e^{-log_tail}
};

struct Aim {
    double tilt;
    double log_delta;   // about the answer, or the question
    double log_width;   // asked width of ln delta
    std::size_t most_points;
};

Plan make_plan(const std::vector<Part>& parts, const Aim& aim);

}  // namespace tightdp::grid
