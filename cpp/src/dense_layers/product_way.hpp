// Ways to add integer outer products, and the choice among the ways that this machine supports
// (docs/theory/exact-products.md, section 8). A way is an implementation for certain instructions. All ways return the
// same bits.
//
// A way packs weights and inputs in the order in which its instructions read them, in tiles of outputs and of columns.
// The way then adds the products of packed tiles to totals. Records are packed in blocks of kDenseBlock, and the last
// block is filled up with zeros.
#pragma once

#include <cstdint>

#include "layers.simd.hpp"

namespace tightdp {

// Largest absolute values of weights and inputs. A digit is a signed integer of eight bits. kLargestWeight is the
// largest number that has three digits, and kLargestEntry is the largest number that has two digits. Larger numbers are
// replaced by these limits.
inline constexpr std::int64_t kLargestWeight = 0x7f7f7f, kLargestEntry = 0x7f7f;

// The inputs of up to kDenseBlock records. Their integers are q[k][j] = x[k][j] rounding_factors[k], rounded to the
// nearest and confined to kLargestEntry, where rounding_factors[k] is the factor of record k. The integers of record k
// are 0 if rounding_factors[k] is 0. T is float, double or std::int16_t. Inputs of the type std::int16_t are integers
// already, and their `rounding_factors` is null.
template <class T>
struct InputBlock {
    const T* x;
    std::int64_t stride, count, columns;
    const double* rounding_factors;
};

// The largest |q| of the packed inputs, one number for each record of a block.
using LargestInputs = double[kDenseBlock];

// The integer weights of up to kDenseBlock records, as an array w[count][outputs].
struct WeightRows {
    const std::int32_t* w;
    std::int64_t count, outputs;
};

// The place of a block of records in a packed operand.
struct PackedPlace {
    std::uint8_t* first;  // first byte of the packed operand
    // Index of the block's first record, and number of records of the operand. Both numbers are multiples of
    // kDenseBlock.
    std::int64_t at, records;
};

// The arguments of ProductWay::add, which computes sums[o * stride + j] += sum_k w[k][o] q[k][j] modulo 2^64 from
// packed weights w and packed inputs q.
struct PackedProduct {
    const std::uint8_t *weights, *inputs;  // first tile of each operand
    std::int64_t records;                  // number of packed records
    std::int64_t limit;                    // number of records whose sums fit in 32 bits (limit_product_records)
    std::int64_t outputs, columns;
    std::int64_t* sums;
    std::int64_t stride;
};

struct ProductWay {
    const char* name;
    std::int64_t tile_outputs, tile_columns;
    // Size in bytes of the packed weights of a tile for one block of records. A packed input has two bytes.
    std::int64_t block_bytes;
    // True if weights are split into two parts of 16 bits, false if they are split into three digits of eight bits.
    bool parts;
    // Packs the integers w[o][kDenseBlock] of all outputs, confined to kLargestWeight. `largest` comes from the packed
    // inputs of the same records.
    void (*pack_weights)(const double* w, std::int64_t outputs, const LargestInputs& largest, PackedPlace place);
    // Packs the same integers from an array in which the weights of a record are neighbours.
    void (*pack_weight_rows)(const WeightRows& rows, const LargestInputs& largest, PackedPlace place);
    void (*pack_floats)(const InputBlock<float>& block, PackedPlace place, LargestInputs& largest);
    void (*pack_doubles)(const InputBlock<double>& block, PackedPlace place, LargestInputs& largest);
    void (*pack_integers)(const InputBlock<std::int16_t>& block, PackedPlace place, LargestInputs& largest);
    void (*add)(const PackedProduct& p);

    // Packs inputs and computes `largest`.
    void pack_inputs(const InputBlock<float>& block, PackedPlace place, LargestInputs& largest) const {
        pack_floats(block, place, largest);
    }
    void pack_inputs(const InputBlock<double>& block, PackedPlace place, LargestInputs& largest) const {
        pack_doubles(block, place, largest);
    }
    void pack_inputs(const InputBlock<std::int16_t>& block, PackedPlace place, LargestInputs& largest) const {
        pack_integers(block, place, largest);
    }

    // Returns a number of records, a multiple of kDenseBlock, whose sums fit in 32 bits. Preconditions: |w| is at most
    // kLargestWeight, |q| is at most kLargestEntry, and |w q| is at most `largest_product` for all weights w and inputs
    // q. Returns 0 if the sums of a single block may not fit.
    std::int64_t limit_product_records(double largest_product) const noexcept;
    // Return the sizes of the packed operands in bytes. `records` is a multiple of kDenseBlock.
    std::int64_t packed_weights_size(std::int64_t outputs, std::int64_t records) const noexcept {
        return (outputs + tile_outputs - 1) / tile_outputs * (records / kDenseBlock) * block_bytes;
    }
    std::int64_t packed_inputs_size(std::int64_t columns, std::int64_t records) const noexcept {
        return (columns + tile_columns - 1) / tile_columns * tile_columns * records * 2;
    }
};

TIGHTDP_DECLARE_SIMD(ProductWay, multiply_add_product_way, ())  // vpmaddwd, or plain C++ that computes the same
TIGHTDP_DECLARE_SIMD(ProductWay, dot_product_way, ())   // vpdpwssd of AVX512-VNNI or AVX-VNNI, if the processor has it
TIGHTDP_DECLARE_SIMD(ProductWay, tile_product_way, ())  // tdpbssd of AMX, used only together with AVX-512
TIGHTDP_DECLARE_SIMD(ProductWay, plain_tile_product_way, ())  // emulation of tdpbssd with tiles in memory, for tests

// Returns the way with this number, counted from 0, among the ways that this machine supports. Returns null if there
// are fewer ways.
const ProductWay* product_way(int number);
// Returns the way that was chosen last. If none was chosen, a short trial at the first use finds the fastest way.
const ProductWay& serving_product_way();
// Chooses the way in use by its number. If the number is -1, the trial decides. All ways return the same bits. A forked
// child process makes its own trial.
void choose_product_way(int number);

}  // namespace tightdp
