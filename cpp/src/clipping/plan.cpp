#include "plan.hpp"

#include <algorithm>
#include <bit>

#include "runtime/system.hpp"

namespace tightdp {
namespace {

// Largest number of stripes: enough to share out evenly over 2, 4, 8, ... threads, but few, because at each block
// every thread reads the others' sums.
constexpr std::size_t kMostStripes = 64;
constexpr std::size_t kTilesPerStripe = 2;
// Largest number of columns for which threads share out rows; they share out the columns if there are more.
constexpr std::size_t kNarrowColumns = 8192;
// Number of elements in a chunk of rows: a thread's work of some 20 microseconds, and 64 or more rows, so that the
// chunks' own sums are at most a thirtieth of the data.
constexpr std::size_t kChunkElements = std::size_t{1} << 18;
constexpr std::size_t kChunkRows = 64;

const std::size_t second_level_cache = [] {
    const std::size_t size = system::second_level_cache();
    return size > 0 ? size : std::size_t{1} << 20;
}();

}  // namespace

std::size_t element_size(Dtype dtype) noexcept {
    return with_dtype(dtype, []<class T> { return sizeof(T); });
}

ClipPlan::ClipPlan(const ClipRequest& request) {
    for (std::size_t s = 0; s < request.segments.size(); ++s) {
        const std::size_t n = request.segments[s].columns;
        for (std::size_t c = 0; c < n; c += kTileColumns)
            tiles.push_back({s, c, columns + c, static_cast<std::int64_t>(std::min<std::size_t>(kTileColumns, n - c))});
        columns += n;
    }
    row_bytes = columns * element_size(request.dtype);
    const std::size_t count = std::bit_floor(std::clamp<std::size_t>(tiles.size() / kTilesPerStripe, 1, kMostStripes));
    // Each stripe ends with the tile whose middle is the last before its share of the columns.
    std::size_t most_tiles = 0;
    stripes.push_back(0);
    for (std::size_t s = 1; s <= count; ++s) {
        std::size_t t = stripes.back();
        while (t < tiles.size() &&
               (2 * tiles[t].first + static_cast<std::size_t>(tiles[t].columns)) * count < 2 * columns * s)
            ++t;
        most_tiles = std::max(most_tiles, t - stripes.back());
        stripes.push_back(t);
    }
    // 64 squares a sum of 16 in a tile, 4 levels to add the 16, the tiles of a stripe, the stripes.
    longest_chain = static_cast<double>(kTileColumns / 16 + 4 + most_tiles + count);

    chunk_rows = std::max<std::size_t>(1, request.rows);
    if (columns <= kNarrowColumns) {
        const std::size_t rows = std::max(kChunkRows, kChunkElements / std::max<std::size_t>(1, columns));
        chunk_rows = std::min(chunk_rows, (rows + kSweepRows - 1) / kSweepRows * kSweepRows);
    }
}

std::size_t block_rows(std::size_t bytes_per_row) noexcept {
    // .45 of the cache: their sums take half as much for every four rows, and pages that fall on the same sets some.
    const std::size_t rows = second_level_cache * 45 / 100 / std::max<std::size_t>(1, bytes_per_row);
    if (rows >= kSweepRows) return std::min(rows / kSweepRows * kSweepRows, kBlockRows);
    // Four rows that fit beside their sums, which take as much as two of float32, gain more than their sums' way to
    // and fro costs: a tenth at 142 KB a row.
    if (kGroup * 3 / 2 * bytes_per_row <= second_level_cache * 85 / 100) return kGroup;
    // Rows of up to the cache's size still come faster from the next one than from memory. Longer rows are read twice
    // from memory: then the more of them a block has, the fewer times their sums are.
    return bytes_per_row <= second_level_cache ? kSweepRows : kBlockRows;
}

}  // namespace tightdp
