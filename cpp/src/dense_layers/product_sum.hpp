// Adds clipped gradients of layers, which are outer products of errors and inputs, to running totals on several
// threads. Gradients are integers in units of a grid's spacing. The same call can add the noise and write the release
// (docs/theory/exact-products.md, sections 7 and 8).
#pragma once

#include <cstdint>
#include <vector>

#include "product_sum.simd.hpp"
#include "tightdp/random/tile.hpp"

namespace tightdp {

// Largest quotient of the clipping norm and the grid's spacing. All gradients are multiples of this spacing. Up to the
// limit, the partial sums of a few hundred records fit in 32 bits.
inline constexpr double kLargestProductBound = 0x1p30;

// Describes the release out = scale * (sum + noise), where the noise is a normal draw of standard deviation
// `deviation`, rounded to an integer. The result depends on integers alone, hence not on the order of additions.
struct SumRelease {
    const random::RandomStream* stream;  // source of the noise. Null for no noise
    double deviation;                    // standard deviation of the noise in units of the grid, at most 2^39
    double scale;
    bool full;                         // true if `out` is float64, false if it is float32
    std::vector<void*> out;            // for each layer, an array [outputs][columns]
    std::vector<std::uint64_t> first;  // for each layer, the index of its first random draw
};

// The arguments of add_products.
struct ProductSum {
    // The layers, all of one element type, without bias and centre. `formed` (DenseLayer) is true for layers with one
    // output, whose products are computed as floats and then truncated to integers.
    std::vector<DenseLayer> layers;
    std::int64_t rows;           // number of records
    // Let g be the grid's spacing. `bound` is the clipping norm divided by g, at most kLargestProductBound.
    // `inverse_grid` is 1 / g.
    double bound, inverse_grid;
    const double* bounds;        // for each record, its own bound, in [0, bound]. Null if all have `bound`
    const std::uint8_t* taken;   // for each record, whether the record contributes. Null if all records do
    // The running totals [outputs][columns] of each layer. Empty if this call has all records of a release.
    std::vector<std::int64_t*> totals;
    const SumRelease* release = nullptr;  // null if the sums stay in the totals
};

// Computes totals[l][o][j] += sum_k m_k modulo 2^64. The integers m_k of record k are the outer product of w_k and
// q_k, or trunc(w_k x_k) for a formed layer. Here x_k are the record's inputs, and q_k these inputs rounded to
// integers. The weights w_k are the record's errors, multiplied by its clip factor and, unless the layer is formed,
// rounded. The norm |m_k| over all layers together is at most the bound. If there is a release, the noise is added to
// the new totals, the results are written to `out`, and the totals become zero.
template <class T>
void add_products(const ProductSum& request);

// Computes sums[o][j] += sum_k w[k][o] q[k][j] modulo 2^64 from given integers w and q. Precondition: |q| <=
// kLargestEntry, |w| <= kLargestWeight, and |w q| <= largest_product <= kLargestIntegerProduct.
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
