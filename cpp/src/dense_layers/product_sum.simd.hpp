// The loop that adds the gradients of layers with one output. The loop is compiled once for each instruction set, and
// all copies return the same bits (docs/theory/exact-products.md, section 7).
#pragma once

#include "layers.simd.hpp"

namespace tightdp {

// Largest number of records in a call of RowSum::add. A sum of 2^14 terms below 2^31 is below 2^45, so a double holds
// it exactly.
inline constexpr std::int64_t kRowRecords = 1 << 14;

// The arguments of RowSum::add, which computes totals[j] += sum_k trunc(weights[k] x[k][j]) modulo 2^64 over the
// records k with rounding_factors[k] > 0. Precondition: every |weights[k] x[k][j]| is below 2^31.
template <class T>
struct RowBlock {
    const T* x;
    std::int64_t x_stride, records, columns;  // records <= kRowRecords
    const double* rounding_factors;
    const double* weights;
    std::int64_t* totals;
};

template <class T>
struct RowSum {
    void (*add)(const RowBlock<T>& b);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<RowSum>, layer_row_sum, ())

}  // namespace tightdp
