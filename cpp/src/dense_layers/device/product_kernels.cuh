// The kernels of integer products. One packs the digits of an operand, and the other multiplies packed operands on the
// matrix units (docs/theory/exact-products.md, section 8). digit_tiles.hpp explains the layouts of packed operands and
// the share of each thread block.
#pragma once

#include <cstdint>

#include "clip_record.hpp"
#include "clipping/device/block_memory.cuh"
#include "digit_tiles.hpp"
#include "matrix_unit.cuh"

namespace tightdp::cuda {

inline constexpr int kPackThreads = 256;

// The next three types hold the integers of an operand that is packed. An operand is a matrix with an integer for each
// record and each line. The weights have a line for each output of the layer, and the inputs for each of their columns.
template <class T>
struct IntegerMatrix {  // [records][lines]
    const T* values;
    std::int64_t records, lines;

    template <int digits>
    TIGHTDP_HD std::int32_t product_kernel_integer_at(std::int64_t record, std::int64_t line) const {
        return confine_to_device_digits<digits>(values[record * lines + line]);
    }
};
template <class T>
struct RoundedRows {  // inputs [records][lines], which are multiplied by the rounding factors of their rows
    const T* values;
    std::int64_t records, lines;
    const double* rounding_factors;

    template <int>
    TIGHTDP_HD std::int32_t product_kernel_integer_at(std::int64_t record, std::int64_t line) const {
        const double rounding_factor = rounding_factors[record];
        if (!(rounding_factor > 0)) return 0;  // the row may have entries that are not finite
        return static_cast<std::int32_t>(confine_device_layer_number(
            nearest_device_layer_integer(static_cast<double>(values[record * lines + line]) * rounding_factor),
            kLargestEntry));
    }
};
struct ClippedWeights {  // [lines][records], integers in doubles
    const double* values;
    std::int64_t records, lines;

    template <int>
    TIGHTDP_HD std::int32_t product_kernel_integer_at(std::int64_t record, std::int64_t line) const {
        return static_cast<std::int32_t>(confine_device_layer_number(values[line * records + record], kLargestWeight));
    }
};

// Numbers of packed tiles of lines and of packed blocks of records.
struct PackedExtent {
    std::int64_t tiles, blocks;
};

// Packs an operand. Each warp packs one block of records of one tile of lines.
template <int digits, class Operand>
__global__ void __launch_bounds__(kPackThreads)
    pack_digits_kernel(Operand from, PackedExtent extent, unsigned char* packed) {
    const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * (kPackThreads / 32) + threadIdx.x / 32;
    if (item >= extent.tiles * extent.blocks) return;
    // Neighbouring warps read neighbouring lines. These are next to each other in memory for all operands but
    // ClippedWeights.
    const std::int64_t tile = item % extent.tiles, block = item / extent.tiles;
    const int lane = static_cast<int>(threadIdx.x % 32);
    LaneDigits found[digits] = {};
    TIGHTDP_UNROLL
    for (int word = 0; word < 4; ++word) {
        const std::int64_t line = tile * kFragmentLines + fragment_line_of_word(lane, word);
        const std::int64_t record = block * kFragmentRecords + fragment_record_of_word(lane, word);
        TIGHTDP_UNROLL
        for (int i = 0; i < 4; ++i) {
            const bool inside = line < from.lines && record + i < from.records;
            std::int32_t left = inside ? from.template product_kernel_integer_at<digits>(record + i, line) : 0;
            TIGHTDP_UNROLL
            for (int d = 0; d < digits; ++d) {
                found[d].word[word] |= (static_cast<std::uint32_t>(left) & 255) << (8 * i);
                left = without_low_digit(left);
            }
        }
    }
    unsigned char* const first = packed + (tile * extent.blocks + block) * digits * kFragmentBytes;
    TIGHTDP_UNROLL
    for (int d = 0; d < digits; ++d) reinterpret_cast<LaneDigits*>(first + d * kFragmentBytes)[lane] = found[d];
}

// Starts to copy the packed weights and inputs of one stage for a thread block. A stage is kStageRecords consecutive
// records (digit_tiles.hpp). The stage's tiles follow each other in shared memory. `blocks` is the number of packed
// blocks of records.
__device__ inline void copy_product_stage(unsigned char* shared, const unsigned char* weights,
                                          const unsigned char* inputs, std::int64_t blocks, std::int64_t stage) {
    const auto copy = [&](unsigned char* to, const unsigned char* from, int size, int tile_bytes) {
        TIGHTDP_UNROLL
        for (int at = 16 * static_cast<int>(threadIdx.x); at < size; at += 16 * kProductThreads)
            copy_async<16>(
                to + at, from + (at / tile_bytes * (blocks / kStageFragments) + stage) * tile_bytes + at % tile_bytes);
    };
    copy(shared, weights, kStageWeights, kTileWeights);
    copy(shared + kStageWeights, inputs, kStageInputs, kTileInputs);
}

// The sums of one warp. They add up products of a digit of a weight and a digit of an input. The array is [tile of 16
// outputs][tile of eight columns][power of 2^8][one of four sums of this lane].
struct WarpSums {
    static constexpr int kOutputTiles = kWarpLines / kFragmentLines, kColumnTiles = kWarpLines / 8;
    std::int32_t sums[kOutputTiles][kColumnTiles][kDigitSums][4];
};

// Adds the products of 32 records to the sums. `weights` and `inputs` point to the warp's first fragments of these
// records.
__device__ inline void add_product_fragments(WarpSums& s, const unsigned char* weights, const unsigned char* inputs) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    LaneDigits q[WarpSums::kColumnTiles / 2][kInputDigits];
    TIGHTDP_UNROLL
    for (int n = 0; n < WarpSums::kColumnTiles / 2; ++n) TIGHTDP_UNROLL
    for (int e = 0; e < kInputDigits; ++e)
        q[n][e] = reinterpret_cast<const LaneDigits*>(inputs + n * kTileInputs + e * kFragmentBytes)[lane];
    TIGHTDP_UNROLL
    for (int m = 0; m < WarpSums::kOutputTiles; ++m) TIGHTDP_UNROLL
    for (int d = 0; d < kWeightDigits; ++d) {
        const LaneDigits w = reinterpret_cast<const LaneDigits*>(weights + m * kTileWeights + d * kFragmentBytes)[lane];
        TIGHTDP_UNROLL
        for (int e = 0; e < kInputDigits; ++e) TIGHTDP_UNROLL
        for (int n = 0; n < WarpSums::kColumnTiles; ++n) {
            const LaneDigits& right = q[n / 2][e];
            multiply_digits(s.sums[m][n][d + e], w.word, right.word[n % 2], right.word[2 + n % 2]);
        }
    }
}

// Adds a warp's sums to the totals [outputs][columns], modulo 2^64. Sums with the index d in [power of 2^8] are in
// units of 2^(8 d).
__device__ inline void add_product_to_totals(const WarpSums& s, std::int64_t output, std::int64_t column,
                                             std::int64_t outputs, std::int64_t columns, unsigned long long* totals) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    TIGHTDP_UNROLL
    for (int m = 0; m < WarpSums::kOutputTiles; ++m) TIGHTDP_UNROLL
    for (int n = 0; n < WarpSums::kColumnTiles; ++n) TIGHTDP_UNROLL
    for (int c = 0; c < 4; ++c) {
        const std::int64_t o = output + m * kFragmentLines + lane / 4 + 8 * (c / 2);
        const std::int64_t j = column + n * 8 + 2 * (lane % 4) + c % 2;
        long long sum = 0;
        TIGHTDP_UNROLL
        for (int d = kDigitSums - 1; d >= 0; --d) sum = sum * 256 + s.sums[m][n][d][c];
        if (o < outputs && j < columns) atomicAdd(totals + o * columns + j, static_cast<unsigned long long>(sum));
    }
}

// Adds the products of packed operands to the totals. Stages are copied to `slots` places of shared memory in turn, so
// that the next stages arrive while one stage is multiplied.
template <int slots>
__global__ void __launch_bounds__(kProductThreads)
    multiply_digits_kernel(ProductShares shares, const unsigned char* weights, const unsigned char* inputs,
                           std::int64_t outputs, std::int64_t columns, unsigned long long* totals) {
    TIGHTDP_SHARED_MEMORY(shared);
    const ProductShares::Place place = shares.place_product_block(blockIdx.x);
    const std::int64_t blocks = shares.stages * kStageFragments;
    const std::int64_t end = place.stage + shares.share < shares.stages ? place.stage + shares.share : shares.stages;
    weights += place.output / kFragmentLines * blocks * kWeightDigits * kFragmentBytes;
    inputs += place.column / kFragmentLines * blocks * kInputDigits * kFragmentBytes;

    const int warp = static_cast<int>(threadIdx.x / 32), across = warp % kColumnWarps, down = warp / kColumnWarps;
    const std::int64_t output = place.output + down * kWarpLines, column = place.column + across * kWarpLines;
    const bool beyond = output >= outputs || column >= columns;  // whether the warp has no outputs or no columns
    WarpSums s = {};
    for (int ahead = 0; ahead < slots - 1; ++ahead) {
        if (place.stage + ahead < end)
            copy_product_stage(shared + ahead * kStageBytes, weights, inputs, blocks, place.stage + ahead);
        close_batch();
    }
    int slot = 0;
    for (std::int64_t stage = place.stage; stage < end; ++stage, slot = slot + 1 < slots ? slot + 1 : 0) {
        wait_batches<slots - 2>();
        __syncthreads();  // this stage has arrived for all threads, and no thread still reads the stage before
        if (stage + slots - 1 < end)
            copy_product_stage(shared + (slot > 0 ? slot - 1 : slots - 1) * kStageBytes, weights, inputs, blocks,
                               stage + slots - 1);
        close_batch();
        if (beyond) continue;
        const unsigned char* const w = shared + slot * kStageBytes + down * WarpSums::kOutputTiles * kTileWeights;
        const unsigned char* const q =
            shared + slot * kStageBytes + kStageWeights + across * (kWarpLines / kFragmentLines) * kTileInputs;
        TIGHTDP_UNROLL
        for (int k = 0; k < kStageFragments; ++k)
            add_product_fragments(s, w + k * kWeightDigits * kFragmentBytes, q + k * kInputDigits * kFragmentBytes);
    }
    if (!beyond) add_product_to_totals(s, output, column, outputs, columns, totals);
}

}  // namespace tightdp::cuda
