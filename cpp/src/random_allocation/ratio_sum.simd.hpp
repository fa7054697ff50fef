// The inner loop of ratio_sum.cpp over lattice cells, compiled once for each instruction set (ratio_sum.simd.cpp).
#pragma once

#include <cstddef>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Adds the products of one run (Run in ratio_sum.cpp) to `count` consecutive cells of the result. The result is the
// distribution of the sum of two independent values. For each i < count, one cell of the first distribution is combined
// with a window, which is a range of cells of the second distribution. The cell has the mass v[i], the scaled mass q[i]
// and the first moment p[i] (RatioSum in ratio_mean.hpp). The window has the mass W and the first moment M, which are
// the sums of w[j][i] and of m[j][i] over all j < pieces. This loop computes
//     mass[i] += scale q[i] W,   moment[i] += p[i] W + v[i] M.
TIGHTDP_DECLARE_SIMD(void, allocation_window,
                     (const double* const* w, const double* const* m, int pieces, const double* q, const double* p,
                      const double* v, double scale, std::size_t count, double* mass, double* moment))

}  // namespace tightdp
