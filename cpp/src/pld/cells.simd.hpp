// The loops of privacy-loss laws over cells, compiled once per instruction set (gaussian.simd.cpp, sampled.simd.cpp).
// Arrays hold a multiple of 8 doubles, edges eight more.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp::grid {

// The largest half-widths of a cell for which the rules of 3 and 5 nodes err by less than 2^-53: docs/theory/grid.md,
// section 6.3.
inline constexpr double kGaussianReach3 = 4e-3, kGaussianReach5 = 0.25;

}  // namespace tightdp::grid

namespace tightdp {

using grid::kGaussianReach3, grid::kGaussianReach5;

// Cells of N(mu, 1) against N(0, 1) between consecutive z; correct where reach[i] <= kGaussianReach5. Returns the
// largest reach.
TIGHTDP_DECLARE_SIMD(double, grid_gaussian_cells,
                     (double mu, const double* z, std::size_t count, double* s, double* t, double* log_scale,
                      double* rel, double* bend, double* reach))

// sign * y = log1p(expm1(sign * x) / q), ratio = e^{sign y}; slack bounds the error of y in units of x.
TIGHTDP_DECLARE_SIMD(void, grid_poisson_edges,
                     (double q, double sign, const double* x, std::size_t count, double* y, double* ratio,
                      double* slack))

}  // namespace tightdp
