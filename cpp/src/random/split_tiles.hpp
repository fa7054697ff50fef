// Divides a range of values into whole tiles (tightdp/random/tile.hpp), and parts of tiles at the two ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// Number of tiles that are computed at once. Their words take 8 KB, which stay in the first-level cache until the words
// are used.
inline constexpr std::int64_t kTilesAtOnce = 8;

// Divides the values [first, first + n) into tiles. Calls whole(tile, tiles, at) for runs of up to kTilesAtOnce whole
// tiles. Calls part(tile, skip, count, at) for `count` values of a tile, after its first `skip` values. `at` is the
// index of the first value of the call, counted from `first`.
template <class Whole, class Part>
void split_draws_into_tiles(std::uint64_t first, std::size_t n, Whole whole, Part part) noexcept {
    constexpr std::size_t kValues = random::kTileValues;
    for (std::size_t at = 0; at < n;) {
        const std::uint64_t tile = (first + at) / kValues;
        const std::size_t skip = (first + at) % kValues, left = n - at;
        if (skip == 0 && left >= kValues) {
            const std::size_t tiles = std::min<std::size_t>(kTilesAtOnce, left / kValues);
            whole(tile, static_cast<std::int64_t>(tiles), at);
            at += tiles * kValues;
        } else {
            const std::size_t count = std::min(left, kValues - skip);
            part(tile, skip, count, at);
            at += count;
        }
    }
}

}  // namespace tightdp
