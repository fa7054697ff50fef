// Divides the work of a clipped sum. clip_plan.hpp explains tiles, stripes, blocks and chunks.
#include "clip_plan.hpp"

#include <algorithm>
#include <bit>

#include "runtime/system.hpp"

namespace tightdp {
namespace {

// Largest number of stripes. There are enough stripes to share them out evenly over 2, 4, 8, ... threads. More stripes
// would cost time, because in each block of rows every thread reads the sums of squares of all stripes.
constexpr std::size_t kMostStripes = 64;
constexpr std::size_t kTilesPerStripe = 2;
// Largest number of columns for which the rows are divided among the threads. If there are more columns, the columns
// are divided.
constexpr std::size_t kNarrowColumns = 8192;
// Number of elements in a chunk of rows, which is some 20 microseconds of work.
constexpr std::size_t kChunkElements = std::size_t{1} << 18;
// Smallest number of rows in a chunk. The sums of 64 rows of float32 take 1/32 of the memory of these rows.
constexpr std::size_t kChunkRows = 64;

const std::size_t second_level_cache = [] {
    const std::size_t size = system::second_level_cache();
    return size > 0 ? size : std::size_t{1} << 20;
}();

}  // namespace

std::size_t clip_plan_element_size(Dtype dtype) noexcept {
    return call_for_clip_tile_dtype(dtype, []<class T> { return sizeof(T); });
}

ClipPlan::ClipPlan(const ClipRequest& request) {
    for (std::size_t s = 0; s < request.segments.size(); ++s) {
        const std::size_t n = request.segments[s].columns;
        for (std::size_t c = 0; c < n; c += kTileColumns)
            tiles.push_back({s, c, columns + c, static_cast<std::int64_t>(std::min<std::size_t>(kTileColumns, n - c))});
        columns += n;
    }
    row_bytes = columns * clip_plan_element_size(request.dtype);
    const std::size_t count = std::bit_floor(std::clamp<std::size_t>(tiles.size() / kTilesPerStripe, 1, kMostStripes));
    // The columns are divided into `count` equal ranges. A stripe has the tiles whose middles lie in its range.
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
    // A tile has 16 running sums of 64 squares each, which are added in 4 levels. Then the tiles of a stripe are added,
    // and then the stripes.
    longest_chain = static_cast<double>(kTileColumns / 16 + 4 + most_tiles + count);

    chunk_rows = std::max<std::size_t>(1, request.rows);
    if (columns <= kNarrowColumns) {
        const std::size_t rows = std::max(kChunkRows, kChunkElements / std::max<std::size_t>(1, columns));
        chunk_rows = std::min(chunk_rows, (rows + kSweepRows - 1) / kSweepRows * kSweepRows);
    }
}

std::size_t choose_clip_block_rows(std::size_t bytes_per_row) noexcept {
    // Rows get 0.45 of the cache. A block that fits has at least eight rows, so its sums take at most half as much
    // space as its rows. Some space is lost to pages that fall on the same sets of the cache.
    const std::size_t rows = second_level_cache * 45 / 100 / std::max<std::size_t>(1, bytes_per_row);
    if (rows >= kSweepRows) return std::min(rows / kSweepRows * kSweepRows, kBlockRows);
    // A block has four rows if they fit in the cache beside their sums, which take as much space as two rows of
    // float32. The rows are then read from memory once. This saves more time than it costs to read and write the sums
    // for each block. At 142 KB a row, a tenth of the time is saved.
    if (kGroup * 3 / 2 * bytes_per_row <= second_level_cache * 85 / 100) return kGroup;
    // Rows of up to the cache's size are still read faster from the next cache than from memory. Longer rows are read
    // twice from memory. A block then has as many rows as possible, because the sums are read once for each block.
    return bytes_per_row <= second_level_cache ? kSweepRows : kBlockRows;
}

}  // namespace tightdp
