// Plan of a call of clipped_sum: tiles of columns, stripes of tiles, blocks of rows. It depends on shapes alone,
// except for the number of rows in a block, which no result depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clipped_sum.hpp"

namespace tightdp {

struct ClipTile {
    std::size_t segment;
    std::size_t column;  // in the segment
    std::size_t first;   // over all segments
    std::int64_t columns;
};

// Largest number of rows of a block: the state of these rows that one thread keeps is small, and 64 streams still
// prefetch well.
inline constexpr std::size_t kBlockRows = 64;

struct ClipPlan {
    std::vector<ClipTile> tiles;
    // A stripe is a run of tiles; norms are summed stripe by stripe, and threads get whole stripes.
    std::vector<std::size_t> stripes;  // first tile of each, then the number of tiles
    std::size_t columns = 0;
    std::size_t row_bytes = 0;
    // Rows are cut into chunks of this many, each with sums of its own, where the columns are too few to
    // share out.
    std::size_t chunk_rows = 0;
    // Additions that one entry's square goes through on its way to the norm.
    double longest_chain = 0;

    explicit ClipPlan(const ClipRequest& request);
    std::size_t stripe_count() const noexcept { return stripes.size() - 1; }
    std::size_t chunk_count(std::size_t rows) const noexcept {
        return rows == 0 ? 1 : (rows + chunk_rows - 1) / chunk_rows;
    }
};

// Number of rows in a block for threads that hold so many bytes of each row, a multiple of kGroup: as many as stay in
// the second-level cache between their norms and their sum.
std::size_t block_rows(std::size_t bytes_per_row) noexcept;

std::size_t element_size(Dtype dtype) noexcept;

}  // namespace tightdp
