// Sums of clipped outer products of few digits over threads, added where the totals are.
// docs/theory/exact-products.md, section 7.
#pragma once

#include <cstdint>
#include <vector>

#include "product_sum.simd.hpp"

namespace tightdp {

// Largest bound, in units of the grid: with it the parts of kProductRecords records add up in 32 bits.
inline constexpr double kLargestProductBound = 0x1p30;

struct ProductSum {
    std::vector<DenseLayer> layers;  // of one element type; no bias, no centre; formed if outputs == 1
    std::int64_t rows;
    double bound, inverse_grid;  // bound <= kLargestProductBound
    const std::uint8_t* taken;   // null: all
    std::vector<std::int64_t*> totals;
};

// totals[l][o][j] += sum_k m_k modulo 2^64, with integers m_k = w_k (x) q_k, or of a formed layer trunc(w_k x_k), whose
// norm |m_k| over all layers together is at most the bound. Layers of one output are formed.
template <class T>
void add_products(const ProductSum& request);

}  // namespace tightdp
