// Ways to add integer outer products, all with the same bits, and the choice among those that this machine has.
// docs/theory/exact-products.md, section 8.
//
// A way packs weights and inputs as its instructions read them, in tiles of outputs and of columns, and adds the
// products of packed tiles to totals. Records are packed in blocks of kDenseBlock; those that are missing are zeros.
#pragma once

#include <cstdint>

#include "layers.simd.hpp"

namespace tightdp {

// Largest weights and inputs, to which larger ones are confined: three and two signed digits of eight bits hold them.
inline constexpr std::int64_t kLargestWeight = 0x7f7f7f, kLargestEntry = 0x7f7f;

// Inputs of up to kDenseBlock records: q[k][j] = x[k][j] steps[k], rounded to the nearest and confined; 0 where the
// step is 0. T is float, double, or std::int16_t for inputs that are integers already (then `steps` is null).
template <class T>
struct InputBlock {
    const T* x;
    std::int64_t stride, count, columns;
    const double* steps;
};

// Place of a block among the packed operands of `records` records, a multiple of kDenseBlock.
struct PackedPlace {
    std::uint8_t* first;       // of the packed operand
    std::int64_t at, records;  // `at` is a multiple of kDenseBlock
};

// Sums of products of packed operands: sums[o * stride + j] += sum_k w[k][o] q[k][j] modulo 2^64.
struct PackedProduct {
    const std::uint8_t *weights, *inputs;  // at the first tile
    std::int64_t records;                  // for which both are packed
    std::int64_t limit;                    // records whose sums 32 bits hold (ProductWay::limit)
    std::int64_t outputs, columns;
    std::int64_t* sums;
    std::int64_t stride;
};

struct ProductWay {
    const char* name;
    std::int64_t tile_outputs, tile_columns;
    std::int64_t weight_bytes;  // of a packed weight; an input takes two
    // Whether weights are two parts of 16 bits; else they are three digits of eight.
    bool parts;
    // Packs integers w[o][kDenseBlock], confined, of all outputs.
    void (*pack_weights)(const double* w, std::int64_t outputs, PackedPlace place);
    void (*pack_floats)(const InputBlock<float>& block, PackedPlace place);
    void (*pack_doubles)(const InputBlock<double>& block, PackedPlace place);
    void (*pack_integers)(const InputBlock<std::int16_t>& block, PackedPlace place);
    void (*add)(const PackedProduct& p);

    void pack_inputs(const InputBlock<float>& block, PackedPlace place) const { pack_floats(block, place); }
    void pack_inputs(const InputBlock<double>& block, PackedPlace place) const { pack_doubles(block, place); }
    void pack_inputs(const InputBlock<std::int16_t>& block, PackedPlace place) const { pack_integers(block, place); }

    // Records, in whole blocks, whose sums 32 bits hold if no |w q_j| exceeds `largest_product` and no weight or input
    // what they are confined to. 0 if those of one block could exceed them.
    std::int64_t limit(double largest_product) const noexcept;
    // Bytes of packed operands.
    std::int64_t weights_size(std::int64_t outputs, std::int64_t records) const noexcept {
        return (outputs + tile_outputs - 1) / tile_outputs * tile_outputs * records * weight_bytes;
    }
    std::int64_t inputs_size(std::int64_t columns, std::int64_t records) const noexcept {
        return (columns + tile_columns - 1) / tile_columns * tile_columns * records * 2;
    }
};

TIGHTDP_DECLARE_SIMD(ProductWay, multiply_add_way, ())  // vpmaddwd, or its meaning in plain C++
TIGHTDP_DECLARE_SIMD(ProductWay, dot_product_way, ())   // vpdpwssd: AVX512-VNNI, AVX-VNNI; no baseline has it
TIGHTDP_DECLARE_SIMD(ProductWay, tile_way, ())          // tdpbssd: AMX, beside AVX-512 alone
TIGHTDP_DECLARE_SIMD(ProductWay, plain_tile_way, ())    // the same with tiles in memory, for tests

// Ways that this machine has, by number from 0 on; null past the last.
const ProductWay* product_way(int number);
// The way that serves: the one that was chosen last, or the fastest of a short trial at first use.
const ProductWay& serving_way();
// Lets a way serve from now on, by its number; with -1 the trial decides. All ways give
// the same bits. A forked child tries anew.
void choose_product_way(int number);

}  // namespace tightdp
