// Loops over the cells of privacy loss distributions, compiled once for each instruction set (gaussian_cells.simd.cpp,
// sampled_edges.simd.cpp). Arrays hold a multiple of 8 doubles, and arrays of the cells' edges hold 8 more.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp::grid {

// The largest reach of a cell at which the quadrature rules of 3 and 5 nodes have a relative error below 2^-53. The
// reach of a cell is the number a of docs/theory/grid.md, section 6.3, which grows with the width of the cell.
inline constexpr double kGaussianReach3 = 4e-3, kGaussianReach5 = 0.25;

}  // namespace tightdp::grid

namespace tightdp {

using grid::kGaussianReach3, grid::kGaussianReach5;

// Computes the cells of the pair (N(mu, 1), N(0, 1)) between consecutive outputs z. A cell is correct only if
// reach[i] <= kGaussianReach5. Returns the largest reach.
TIGHTDP_DECLARE_SIMD(double, compute_gaussian_loss_cells,
                     (double mu, const double* z, std::size_t count, double* s, double* t, double* log_scale,
                      double* rel, double* bend, double* reach))

// Computes y and ratio for which sign * y = log1p(expm1(sign * x) / q) and ratio = e^{sign y}. Rounding y has the same
// effect as changing x by at most `slack`.
TIGHTDP_DECLARE_SIMD(void, find_poisson_loss_edges,
                     (double q, double sign, const double* x, std::size_t count, double* y, double* ratio,
                      double* slack))

}  // namespace tightdp
