// Packed operands of integer products on a device, and the share of each thread block. The code is plain arithmetic, so
// that tests on the host make the same choices as a device. docs/theory/exact-products.md, section 8.
//
// The weights have a line for each output, and the inputs have a line for each column. An operand is packed in
// fragments, as [tile of 16 lines][block of 32 records][digit]. A fragment has 16 bytes for each lane of a warp, in the
// matrix unit's order: four words of four records each. Records and lines that are missing are zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "clipping/device/launch_shape.hpp"
#include "dense_layers/product_way.hpp"
#include "tightdp/config.hpp"

namespace tightdp::cuda {

inline constexpr int kWeightDigits = 3, kInputDigits = 2, kDigitSums = kWeightDigits + kInputDigits - 1;
inline constexpr int kFragmentLines = 16, kFragmentRecords = 32, kFragmentBytes = 512;

// The packed records of one fragment that one lane holds.
struct alignas(16) LaneDigits {
    std::uint32_t word[4];
};
static_assert(32 * sizeof(LaneDigits) == kFragmentBytes);

// Return, for a word of a lane, the line and the first of the four records in this word, counted within the fragment.
TIGHTDP_HD constexpr int fragment_line_of_word(int lane, int word) {
    return lane / 4 + 8 * (word % 2);
}
TIGHTDP_HD constexpr int fragment_record_of_word(int lane, int word) {
    return 16 * (word / 2) + 4 * (lane % 4);
}

// Return the lowest signed digit of x, which is in [-2^7, 2^7), and the rest of x in units of 2^8.
TIGHTDP_HD constexpr std::int32_t low_digit(std::int32_t x) {
    return ((x + 128) & 255) - 128;
}
TIGHTDP_HD constexpr std::int32_t without_low_digit(std::int32_t x) {
    return (x - low_digit(x)) >> 8;
}

// Returns x, confined to [-most, most] for the largest number `most` of `digits` digits.
template <int digits>
TIGHTDP_HD constexpr std::int32_t confine_to_device_digits(std::int32_t x) {
    constexpr auto most = static_cast<std::int32_t>(digits == kWeightDigits ? kLargestWeight : kLargestEntry);
    return x < -most ? -most : x > most ? most : x;
}

// A thread block of the product has eight warps, and each warp has 32 outputs and 32 columns. A stage consists of the
// records whose fragments are copied to shared memory at a time.
inline constexpr int kProductThreads = 256, kWarpLines = 32, kOutputWarps = 2, kColumnWarps = 4;
inline constexpr int kBlockOutputs = kOutputWarps * kWarpLines, kBlockColumns = kColumnWarps * kWarpLines;
inline constexpr int kStageRecords = 64, kStageFragments = kStageRecords / kFragmentRecords;
// Numbers of bytes of a stage: of one tile of weights or inputs, and of all tiles of a thread block.
inline constexpr int kTileWeights = kStageFragments * kWeightDigits * kFragmentBytes,
                     kTileInputs = kStageFragments * kInputDigits * kFragmentBytes;
inline constexpr int kStageWeights = kBlockOutputs / kFragmentLines * kTileWeights,
                     kStageInputs = kBlockColumns / kFragmentLines * kTileInputs,
                     kStageBytes = kStageWeights + kStageInputs;

// Largest number of stages with fewer than 2^16 records. Sums of products of digits then fit in 32 bits.
inline constexpr std::int64_t kMostStages = ((1 << 16) - 1) / kStageRecords;
static_assert(std::int64_t{2} * 128 * 128 * kStageRecords * kMostStages <= 0x7fffffff);

// Size in bytes of the packed operands of one chunk of records, if there are several chunks.
inline constexpr std::int64_t kDevicePackedBytes = 1 << 27;

// The shares of a product's thread blocks. A block computes kBlockOutputs x kBlockColumns sums over `share` stages.
struct ProductShares {
    // `across` blocks have the same outputs, and `down` blocks the same columns. A chunk of records has `stages`
    // stages.
    std::int64_t across, down, stages, share;

    TIGHTDP_HD std::int64_t count_product_block_splits() const { return (stages + share - 1) / share; }
    TIGHTDP_HD std::int64_t count_launch_blocks() const { return across * down * count_product_block_splits(); }
    TIGHTDP_HD std::int64_t count_device_packed_outputs() const { return down * kBlockOutputs; }
    TIGHTDP_HD std::int64_t count_device_packed_columns() const { return across * kBlockColumns; }
    TIGHTDP_HD std::int64_t packed_record_bytes() const {
        return kWeightDigits * count_device_packed_outputs() + kInputDigits * count_device_packed_columns();
    }

    // The first output, column and stage of a block. Blocks that run at the same time have few different outputs and
    // columns, so that most of their operands are in the second-level cache.
    struct Place {
        std::int64_t output, column, stage;
    };
    TIGHTDP_HD Place place_product_block(std::int64_t block) const {
        constexpr std::int64_t kBand = 8;  // number of consecutive blocks with the same columns
        const std::int64_t tile = block % (across * down), first = tile / (kBand * across) * kBand;
        const std::int64_t left = down - first, band = left < kBand ? left : kBand, in_band = tile - first * across;
        return {(first + in_band % band) * kBlockOutputs, in_band / band * kBlockColumns,
                block / (across * down) * share};
    }
};

// Returns the number of records, in whole stages, whose packed operands take at most `packed_bytes`. The number is at
// least one stage.
inline std::int64_t choose_device_product_chunk(std::int64_t rows, std::int64_t outputs, std::int64_t columns,
                                         std::int64_t packed_bytes) {
    const ProductShares s{ceiling_quotient(columns, kBlockColumns), ceiling_quotient(outputs, kBlockOutputs), 1, 1};
    return kStageRecords * std::clamp<std::int64_t>(packed_bytes / (s.packed_record_bytes() * kStageRecords), 1,
                                                    std::max<std::int64_t>(ceiling_quotient(rows, kStageRecords), 1));
}

// Shares a product among thread blocks, as if each of `processors` multiprocessors ran one block at a time.
inline ProductShares share_product_among_blocks(std::int64_t rows, std::int64_t outputs, std::int64_t columns,
                                         std::int64_t processors) {
    ProductShares s{ceiling_quotient(columns, kBlockColumns), ceiling_quotient(outputs, kBlockOutputs),
                    ceiling_quotient(rows, kStageRecords), 1};
    // Starting a block and adding its sums takes about as long as this number of stages.
    constexpr std::int64_t kStart = 4;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t splits = ceiling_quotient(s.stages, kMostStages);
         splits <= std::max(ceiling_quotient(s.stages, kMostStages), std::min(processors, s.stages / kStart));
         ++splits) {
        const std::int64_t share = ceiling_quotient(s.stages, splits);
        const std::int64_t cost =
            ceiling_quotient(s.across * s.down * ceiling_quotient(s.stages, share), processors) * (share + kStart);
        if (cost < least) least = cost, s.share = share;
    }
    return s;
}

}  // namespace tightdp::cuda
