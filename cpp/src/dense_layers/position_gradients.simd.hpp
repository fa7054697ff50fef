// The loops that form the gradients of records from several positions. They are compiled once for each instruction
// set, and all copies return the same bits (docs/theory/exact-products.md, section 9).
#pragma once

#include "layers.simd.hpp"

namespace tightdp {

// The patches of an image, which a convolution multiplies by its weights. The image lies in padded memory. A patch is
// copied in chunks of `chunk` neighbouring floats, 4 or 8. A chunk may have more floats than are wanted. The next chunk
// or the next position overwrites the surplus floats.
struct ImagePatches {
    const float* image;           // the image in padded memory. Null if PositionGradient::columns has the columns
    const std::int64_t* corners;  // for each position, the index in the image of the first entry of its patch
    const std::int64_t* sources;  // for each chunk, its index in the image minus the index of the patch's first entry
    const std::int64_t* targets;  // for each chunk, its index in the scratch memory at the first position of a block
    std::int64_t count, chunk;
};
inline constexpr std::int64_t kLargestChunk = 8;

// The arguments of form_position_gradient, which computes out[i][j] = sum_t rows[t][i] columns[t][j] in float32 for one
// record. The positions t are divided into blocks of kPositionBlock positions. The products of a block are added in the
// order of t, and the sums of the blocks are added in the order of the blocks. So the order of all additions is fixed.
struct PositionGradient {
    const float* rows;  // rows[t][i] is at rows[t * row_position + i * row_entry]. One of these distances is 1
    std::int64_t row_position, row_entry, row_count;
    const float* columns;  // array [positions][column_count]. Not used if there are patches
    ImagePatches patches;
    std::int64_t positions, column_count;
    float* scratch;  // position_gradient_scratch_size(row_count, column_count) numbers
    float* out;      // out[i][j] is at out[i * out_row + j * out_column]
    std::int64_t out_row, out_column;
};

// The columns and rows of one block of positions are copied to panels in the scratch memory. A panel has kPanelColumns
// columns, or kPanelRows rows, for all positions of the block. Panels of columns are kPanelStride floats apart. This
// distance is not a power of two, since panels at such a distance would displace one another from the cache. The
// distance also leaves room after each panel for the surplus floats of a chunk (ImagePatches).
inline constexpr std::int64_t kPositionBlock = 64, kPanelColumns = 32, kPanelRows = 8,
                              kPanelStride = (kPositionBlock + 1) * kPanelColumns;
constexpr std::int64_t column_panel_size(std::int64_t columns) noexcept {
    return pad_layer_length(columns, kPanelColumns) / kPanelColumns * kPanelStride;
}
constexpr std::int64_t position_gradient_scratch_size(std::int64_t rows, std::int64_t columns) noexcept {
    return column_panel_size(columns) + pad_layer_length(rows, kPanelRows) * kPositionBlock;
}

TIGHTDP_DECLARE_SIMD(void, form_position_gradient, (const PositionGradient& g))

}  // namespace tightdp
