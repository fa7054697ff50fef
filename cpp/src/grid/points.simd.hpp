// The loops of the grid engine over cells and lattice points, compiled once per instruction set
// (pld/gaussian.simd.cpp, points.simd.cpp). Arrays hold a multiple of 8 doubles, edges eight more.
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

TIGHTDP_DECLARE_SIMD(void, grid_tilt,
                     (double tilt, double shift, const double* x, std::size_t count, const double* s, const double* t,
                      const double* log_scale, const double* rel, double* mass, double* spread, double* error))

// Sums of w, w loss, w loss^2 and, if peak = 0, of mass (e^{tilt loss} - 1), where w_i = e^{log_mass + tilt loss -
// peak}.
TIGHTDP_DECLARE_SIMD(void, grid_moments,
                     (double tilt, double peak, const double* loss, const double* log_mass, const double* mass,
                      std::size_t count, double* sums))

// Horner's rule at eight ratios from 1 on: sum_i w_i ratio^i, or from the other end sum_i w_i ratio^{count - 1 - i}, as
// sum 2^octaves. Precondition: ratio^block <= e^320.
TIGHTDP_DECLARE_SIMD(void, grid_horner,
                     (const double* w, std::size_t count, bool ascending, std::size_t block, const double* ratio,
                      double* sum, double* octaves))

// Sum of (times (re_i^2 + im_i^2) + more)^exponent, more > 0.
TIGHTDP_DECLARE_SIMD(double, grid_powers,
                     (const double* re, const double* im, std::size_t count, double times, double more,
                      double exponent))

}  // namespace tightdp
