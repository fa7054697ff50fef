// Sums of clipped outer products of few digits over threads, added where the totals are, and their release in the same
// pass. docs/theory/exact-products.md, sections 7 and 8.
#pragma once

#include <cstdint>
#include <vector>

#include "product_sum.simd.hpp"
#include "tightdp/random/tile.hpp"

namespace tightdp {

// Largest bound, in units of the grid: with it the sums of some hundred records' parts fit in 32 bits.
inline constexpr double kLargestProductBound = 0x1p30;

// Release of the sums: out = scale * (sum + a rounded normal of that deviation), a function of integers alone.
struct SumRelease {
    const random::RandomStream* stream;  // null: no noise
    double deviation;                    // in units of the grid, at most 2^39
    double scale;
    bool full;                         // out is float64, else float32
    std::vector<void*> out;            // one a layer, [outputs][columns]
    std::vector<std::uint64_t> first;  // index of the first draw of each layer
};

struct ProductSum {
    std::vector<DenseLayer> layers;  // of one element type; no bias, no centre; formed if outputs == 1
    std::int64_t rows;
    double bound, inverse_grid;  // bound <= kLargestProductBound
    const std::uint8_t* taken;   // null: all
    // One a layer; none of them if all records of a release are here.
    std::vector<std::int64_t*> totals;
    bool fresh = false;                   // what the totals hold does not count
    const SumRelease* release = nullptr;  // null: sums stay in the totals
};

// totals[l][o][j] += sum_k m_k modulo 2^64, with integers m_k = w_k (x) q_k, or of a formed layer trunc(w_k x_k), whose
// norm |m_k| over all layers together is at most the bound. Layers of one output are formed. With a release, what
// would be the totals gets its noise and goes to `out`; the totals are zero afterwards.
template <class T>
void add_products(const ProductSum& request);

// sums[o][j] += sum_k w[k][o] q[k][j] modulo 2^64 of integers that are given, |q| <= kLargestEntry, |w| <=
// kLargestWeight, and |w q| <= largest_product <= kLargestIntegerProduct. On the calling thread.
inline constexpr double kLargestIntegerProduct = 0x1p32;
struct IntegerProduct {
    const std::int32_t* w;  // [rows][outputs]
    const std::int16_t* q;  // [rows][columns]
    std::int64_t rows, outputs, columns;
    double largest_product;
    std::int64_t* sums;
};
void add_integer_product(const IntegerProduct& p);

}  // namespace tightdp
