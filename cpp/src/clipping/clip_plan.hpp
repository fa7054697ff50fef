// Divides the work of a call of clipped_sum into tiles of columns, stripes of tiles, and chunks and blocks of rows. The
// division depends on the shapes of the arrays alone, except for the number of rows in a block. No result depends on
// this number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clipped_sum.hpp"

namespace tightdp {

// A range of columns of one segment.
struct ClipTile {
    std::size_t segment;
    std::size_t column;  // index of the tile's first column in its segment
    std::size_t first;   // index of the tile's first column among the columns of all segments
    std::int64_t columns;
};

// Largest number of rows in a block. A thread keeps little state for 64 rows, and the processor still prefetches 64
// rows well.
inline constexpr std::size_t kBlockRows = 64;

struct ClipPlan {
    std::vector<ClipTile> tiles;
    // A stripe is a range of consecutive tiles. Norms are summed stripe by stripe, and threads get whole stripes. The
    // vector has the index of the first tile of each stripe, and then the number of tiles.
    std::vector<std::size_t> stripes;
    std::size_t columns = 0;
    std::size_t row_bytes = 0;
    // Number of rows in a chunk. Each chunk has its own sums. There is more than one chunk only if there are too few
    // columns to share out over threads.
    std::size_t chunk_rows = 0;
    // Largest number of additions through which the square of an entry passes on its way to the sum of squares.
    double longest_chain = 0;

    explicit ClipPlan(const ClipRequest& request);
    std::size_t clip_stripe_count() const noexcept { return stripes.size() - 1; }
    std::size_t clip_chunk_count(std::size_t rows) const noexcept {
        return rows == 0 ? 1 : (rows + chunk_rows - 1) / chunk_rows;
    }
};

// Returns the number of rows in a block, a multiple of kGroup (clip_tile.hpp), for threads that each work on
// `bytes_per_row` bytes of a row. A block has as many rows as the second-level cache holds, so that rows are still
// there when they are added after the computation of the norms.
std::size_t choose_clip_block_rows(std::size_t bytes_per_row) noexcept;

std::size_t clip_plan_element_size(Dtype dtype) noexcept;

}  // namespace tightdp
