// Loops over the cells of privacy loss distributions, compiled once for each instruction set (gaussian_cells.simd.cpp,
// sampled_edges.simd.cpp). Arrays hold a multiple of 8 doubles, and arrays of the cells' edges hold 8 more.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp::grid {

// The largest reach of a cell at which the quadrature rules of 3 and 5 nodes have a relative error below 2^-53. A cell
// of outputs [z, z + d] has the reach d (|z - mu| + mu + d + 3.2). Powers of the reach bound the derivatives of the
// integrand (docs/theory/grid.md, section 6.3, where the reach is called a).
inline constexpr double kGaussianReach3 = 4e-3, kGaussianReach5 = 0.25;

}  // namespace tightdp::grid

namespace tightdp {

using grid::kGaussianReach3, grid::kGaussianReach5;

// Computes the cells of the pair (N(mu, 1), N(0, 1)) between consecutive outputs z. The output arrays are the members
// of CellBlock (loss_distribution.hpp), and the reach of each cell. A cell is correct only if reach[i] <=
// kGaussianReach5. Returns the largest reach.
TIGHTDP_DECLARE_SIMD(double, compute_gaussian_loss_cells,
                     (double mu, const double* z, std::size_t count, double* s, double* t, double* log_scale,
                      double* rel, double* bend, double* reach))

// Computes the loss y of a mechanism that becomes the loss x once the mechanism runs on a Poisson sample with the
// probability q: sign * y = log1p(expm1(sign * x) / q). `sign` is 1 for removing a record and -1 for adding one.
// `ratio` is e^{sign y}. Rounding y has the same effect as changing x by at most `slack`.
TIGHTDP_DECLARE_SIMD(void, find_poisson_loss_edges,
                     (double q, double sign, const double* x, std::size_t count, double* y, double* ratio,
                      double* slack))

}  // namespace tightdp
