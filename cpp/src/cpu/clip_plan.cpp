#include "clip_plan.hpp"

#include <unistd.h>

#include <algorithm>

namespace tightdp {
namespace {

// Stripes are enough to share out over any number of threads and few enough to add up in no time.
constexpr std::size_t kMostStripes = 512;
// Fewer columns than this are not worth splitting between threads: rows are.
constexpr std::size_t kNarrowColumns = 2048;
// Elements in a chunk of rows: a thread's work of some 20 microseconds, and 64 or more rows, so that the
// chunks' own sums are at most a thirtieth of the data.
constexpr std::size_t kChunkElements = std::size_t{1} << 18;
constexpr std::size_t kChunkRows = 64;

std::size_t second_level_cache() noexcept {
#if defined(_SC_LEVEL2_CACHE_SIZE)
    static const long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (size > 0) return static_cast<std::size_t>(size);
#endif
    return std::size_t{1} << 20;
}

}  // namespace

std::size_t element_size(Dtype dtype) noexcept {
    switch (dtype) {
        case Dtype::float64:
            return 8;
        case Dtype::float32:
            return 4;
        default:
            return 2;
    }
}

ClipPlan::ClipPlan(const ClipRequest& request) {
    for (std::size_t s = 0; s < request.segments.size(); ++s) {
        const std::size_t n = request.segments[s].columns;
        for (std::size_t c = 0; c < n; c += kTileColumns)
            tiles.push_back(
                {s, c, columns + c, static_cast<long>(std::min<std::size_t>(kTileColumns, n - c))});
        columns += n;
    }
    row_bytes = columns * element_size(request.dtype);
    const std::size_t per_stripe = std::max<std::size_t>(1, (tiles.size() + kMostStripes - 1) / kMostStripes);
    for (std::size_t t = 0; t < tiles.size(); t += per_stripe) stripes.push_back(t);
    stripes.push_back(tiles.size());
    // 8 squares a sum of 64 in a tile, 6 levels to add the 64, the tiles of a stripe, the stripes.
    longest_chain = static_cast<double>(kTileColumns / 64 + 6 + per_stripe + stripes.size());

    chunk_rows = std::max<std::size_t>(1, request.rows);
    if (columns <= kNarrowColumns) {
        const std::size_t rows = std::max(kChunkRows, kChunkElements / std::max<std::size_t>(1, columns));
        chunk_rows = std::min(chunk_rows, (rows + kGroup - 1) / kGroup * kGroup);
    }
}

BlockSize block_size(std::size_t bytes_per_row) noexcept {
    // Two blocks in six tenths of the cache; the sums in double take most of the rest (measured: half and 0.7
    // are slower).
    const std::size_t room = second_level_cache() * 6 / 10 / 2;
    const std::size_t rows = room / std::max<std::size_t>(1, bytes_per_row) / kGroup * kGroup;
    // Down to one group of rows that fills the cache entirely, reading each row once still beats reading it
    // twice.
    if (rows == 0 && bytes_per_row * 2 * kGroup > second_level_cache() * 9 / 10) return {kBlockRows, false};
    return {std::clamp<std::size_t>(rows, kGroup, kBlockRows), true};
}

}  // namespace tightdp
