// The inner loop of sum.cpp over lattice cells, compiled once for each instruction set (sum.simd.cpp).
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Adds one run of sum.cpp to a block of the result. The cells of one term have the masses v[i], the scaled masses q[i]
// and the moments p[i], as described at Sum. The other term has the mass W = sum_j w[j][i] and the moment M = sum_j
// m[j][i] in its window, a range of cells, where j < pieces. For each i < count, this loop computes
//     mass[i] += scale q[i] W,   moment[i] += p[i] W + v[i] M.
TIGHTDP_DECLARE_SIMD(void, allocation_window,
                     (const double* const* w, const double* const* m, int pieces, const double* q, const double* p,
                      const double* v, double scale, std::size_t count, double* mass, double* moment))

}  // namespace tightdp
