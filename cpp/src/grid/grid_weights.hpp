// A tilted privacy loss distribution on a lattice of losses. Tilted means that masses at losses y are multiplied by
// e^{tilt y}. There are pessimistic weights for upper bounds and optimistic weights for lower bounds
// (docs/theory/grid.md, sections 2 to 4).
//
// P and Q are the distributions of an output on two neighbouring data sets. The P-mass of a set of outputs is its mass
// under P, and the Q-mass its mass under Q. A distribution dominates another one if its privacy profile, delta as a
// function of epsilon, is nowhere smaller.
#pragma once

#include <cstdint>
#include <vector>

#include "loss_distributions/loss_distribution.hpp"

namespace tightdp::grid {

// The lattice of the points x_i = anchor + i h. A point with the weight w_i carries the P-mass w_i e^{log_scale - tilt
// (x_i - anchor)}, where log_scale is a member of Weights.
struct Lattice {
    double anchor, h, tilt;

    double grid_point(std::int64_t i) const { return anchor + static_cast<double>(i) * h; }
};

// Weights of the points with the indices first, first + 1, ... of a lattice.
struct Weights {
    std::int64_t first = 0;
    std::vector<double> values;
    double log_scale = 0;
};

// Properties of two distributions on a lattice, an upper and a lower one, that approximate a given distribution. After
// all losses of the upper one are moved up by `slack`, it dominates the given distribution. After all losses of the
// lower one are moved down by `slack`, the given distribution dominates it.
struct BothSides {
    double slack = 0;
    double infinity_upper = 0, infinity_lower = 0;  // P-mass at infinity
    double work = 0;                                // number of evaluations of densities
};

struct Discretised : BothSides {
    Weights upper, lower;
    double last = 0;  // index of the last point at which the upper distribution may have any mass
};

// Puts a distribution on the points with the indices first .. first + cells of a lattice. `log_scale` is an estimate of
// ln E[e^{tilt Y}] - tilt * anchor for the loss Y, so that the weights add up to about 1.
void discretise_on_grid(const LossDistribution& losses, const Lattice& lattice, double log_scale, std::int64_t first,
                        std::size_t cells, Discretised& out);

// Moves weights to the lattice `coarse`. The lattice of `fine` has half the spacing and the same anchor. log_scale is
// kept. `upper` tells whether the weights belong to the upper or to the lower side.
Weights coarsen_grid_weights(const Weights& fine, const Lattice& coarse, bool upper);

// Returns ln of the sum of w_i e^{further h (i - first)}, rounded up.
double log_grid_moment(const Weights& weights, double further, double h);

// Computes log_grid_moment for eight exponents `further` of the same sign.
void log_grid_moments(const Weights& weights, const double* further, double h, double* log);

// Masses of the cells [x_i, x_{i+1}) and of the points x_i, from which the weights are computed. Each mass is
// multiplied by e^{tilt (x_i - anchor) - log_scale}, where x_i is the point or the left end of the cell.
struct Cells {
    // `mass` is the P-mass of a cell, `spread` the integral of 1 - e^{x_i - y} dP over its losses y, and `error` the
    // relative error of both. `bend` bounds how much the logarithm of the density dQ/de^y varies within the cell.
    std::vector<double> mass, spread, error, bend;
    // Each point has its own P-mass and the relative error of this mass. There is one more point than there are cells.
    std::vector<double> point, point_error;

    explicit Cells(std::size_t cells)
        : mass(cells), spread(cells), error(cells), bend(cells), point(cells + 1), point_error(cells + 1) {}
};

// compute_pessimistic_grid_weights() returns the weights of the upper distribution (BothSides), called the upper side.
// compute_optimistic_grid_weights() returns the weights of the lower distribution, called the lower side. The ends of
// the cells are known up to `slack`.
std::vector<double> compute_pessimistic_grid_weights(const Cells& cells, const Lattice& lattice, double slack);
std::vector<double> compute_optimistic_grid_weights(const Cells& cells, const Lattice& lattice, double slack);

}  // namespace tightdp::grid
