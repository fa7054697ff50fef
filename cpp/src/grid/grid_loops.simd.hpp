// The loops of the grid engine over cells and lattice points, compiled once for each instruction set
// (grid_loops.simd.cpp). The length of each array is a multiple of 8 doubles, unless its description allows other
// lengths.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Multiplies the masses of cells by e^{tilt x - shift}, where x is the cell's left end minus the lattice's anchor. The
// cells are given by the members s, t, log_scale and rel of a CellBlock (loss_distributions/loss_distribution.hpp).
// Computes mass = (s + t) e^{log_scale + tilt x - shift}, spread = t e^{log_scale + tilt x - shift}, and the relative
// error of mass and spread.
TIGHTDP_DECLARE_SIMD(void, tilt_grid_cells,
                     (double tilt, double shift, const double* x, std::size_t count, const double* s, const double* t,
                      const double* log_scale, const double* rel, double* mass, double* spread, double* error))

// Computes the sums of w, w loss and w loss^2 over the lumps of a sketch (loss_distributions/loss_distribution.hpp),
// for the weights w = e^{log_mass + tilt loss - peak}. If peak = 0, the loop also computes the sum of mass (e^{tilt
// loss} - 1). The four sums are written to `sums`. `count` may be any number, but the arrays are padded to a multiple
// of 8.
TIGHTDP_DECLARE_SIMD(void, sum_grid_moments,
                     (double tilt, double peak, const double* loss, const double* log_mass, const double* mass,
                      std::size_t count, double* sums))

// Evaluates a polynomial by Horner's rule at eight ratios >= 1. If `ascending`, the polynomial is the sum of w_i
// ratio^i, otherwise the sum of w_i ratio^{count - 1 - i}. The value at ratio j is sum[j] * 2^octaves[j]. To prevent
// overflow, large sums are scaled down after each `block` weights. `count` may be any number. Precondition: ratio^block
// <= e^320.
TIGHTDP_DECLARE_SIMD(void, evaluate_grid_polynomials,
                     (const double* w, std::size_t count, bool ascending, std::size_t block, const double* ratio,
                      double* sum, double* octaves))

// Returns the sum over i < count of (times (re_i^2 + im_i^2) + more)^exponent, where more > 0. `count` may be any
// number.
TIGHTDP_DECLARE_SIMD(double, sum_grid_powers,
                     (const double* re, const double* im, std::size_t count, double times, double more,
                      double exponent))

}  // namespace tightdp
