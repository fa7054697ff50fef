// A law on a lattice, tilted: the pessimistic and the optimistic weights of docs/theory/grid.md, sections 2 to 4.
#pragma once

#include <cstdint>
#include <vector>

#include "pld/law.hpp"

namespace tightdp::grid {

// Points x_i = anchor + i h, carrying P-masses w e^{log_scale - tilt (x_i - anchor)}.
struct Lattice {
    double anchor, h, tilt;

    double at(std::int64_t i) const { return anchor + static_cast<double>(i) * h; }
};

// Weights of points first, first + 1, ... of a lattice.
struct Weights {
    std::int64_t first = 0;
    std::vector<double> w;
    double log_scale = 0;
};

// Properties of an upper and a lower distribution on a lattice: the upper one dominates the given distribution, the
// lower one is dominated by it ...
struct BothSides {
    double slack = 0;  // ... once all losses are moved up, or down, by this
    double infinity_upper = 0, infinity_lower = 0;  // P-mass at infinity
    double work = 0;  // evaluations of densities
};

struct Discretised : BothSides {
    Weights upper, lower;
    double last = 0;  // index of the last point on which the upper law may have mass, however little
};

// Precondition: log_scale is about the cumulant of the law at the tilt, less tilt * anchor, so that the
// weights add up to about 1; the points are first .. first + cells.
void discretise(const Law& law, const Lattice& lattice, double log_scale, std::int64_t first, std::size_t cells,
                Discretised& out);

// Moves weights from the lattice of half the spacing, through the same anchor, to the coarse one. The Weights keep
// their log_scale. `upper` selects the upper side, otherwise the lower one.
Weights coarsen(const Weights& fine, const Lattice& coarse, bool upper);

// ln sum w_i e^{further h (i - first)}, rounded up.
double log_moment(const Weights& weights, double further, double h);

// log_moment for eight exponents of one sign at once.
void log_moments(const Weights& weights, const double* further, double h, double* log);

// Masses of cells and points on their way to weights; all tilted at the left end of the cell.
struct Cells {
    std::vector<double> mass, spread, error, bend;  // of a cell: P-mass, integral of 1 - e^{x_i - y}
    std::vector<double> point, point_error;         // on the points, one more than cells

    explicit Cells(std::size_t cells)
        : mass(cells), spread(cells), error(cells), bend(cells), point(cells + 1), point_error(cells + 1) {}
};

std::vector<double> pessimistic(const Cells& cells, const Lattice& lattice, double slack);
std::vector<double> optimistic(const Cells& cells, const Lattice& lattice, double slack);

}  // namespace tightdp::grid
