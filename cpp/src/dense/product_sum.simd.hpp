// Loops that add integer outer products of few digits, one copy an instruction set. All add the same integers, so that
// all have the same bits. docs/theory/exact-products.md, section 7.
#pragma once

#include "layers.simd.hpp"

namespace tightdp {

// Records whose products are added at once: 32 bits hold the sums of their parts.
inline constexpr std::int64_t kProductRecords = 256;
// Of a tile, whose sums are registers. The rows of 256 records by 32 columns are 16 KB, half a first-level cache.
inline constexpr std::int64_t kProductOutputs = 4, kProductColumns = 32;

// A weight is w = 2^8 high + low with -2^7 <= low < 2^7; 16 bits hold each part.
inline constexpr int kLowDigits = 8;
// Larger weights are confined to this. None is, unless a layer has 2^28 inputs.
inline constexpr double kLargestWeight = 0x7ffe00;
// Larger entries are confined to this: one that has the whole norm could round to 2^15.
inline constexpr double kLargestEntry = 0x7fff;

// totals[o * stride + j] += sum_k w[k][o] q[k][j] modulo 2^64 for j < columns, q as QuantizedRows has it.
template <class T>
struct ProductBlock {
    const T* x;
    std::int64_t x_stride, records, columns;  // records <= kProductRecords
    const double* steps;
    const std::int16_t* parts;  // low, high of each output: [2 outputs, up to a multiple of a tile's][kProductRecords]
    std::int64_t outputs;
    std::int32_t* pairs;  // scratch, [columns up to a multiple of a tile's][kProductRecords / 2]
    std::int64_t* totals;
    std::int64_t stride;
};

// totals[j] += sum_k trunc(weights[k] x[k][j]) modulo 2^64, where steps[k] > 0. Every |weights[k] x[k][j]| is below
// 2^31.
template <class T>
struct RowBlock {
    const T* x;
    std::int64_t x_stride, records, columns;  // records <= kProductRecords
    const double* steps;
    const double* weights;
    std::int64_t* totals;
};

template <class T>
struct ProductKernels {
    void (*add)(const ProductBlock<T>& b);
    void (*add_rows)(const RowBlock<T>& b);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<ProductKernels>, product_kernels, ())

// The parts of kDenseBlock records' weights [outputs][kDenseBlock], to parts[2 o][k] and parts[2 o + 1][k].
TIGHTDP_DECLARE_SIMD(void, split_weights, (const double* weights, std::int64_t outputs, std::int16_t* parts))

}  // namespace tightdp
