// Adds exactly rounded normal draws to arrays (tightdp/random/rounded_normal.hpp). Draws come in tiles
// (tightdp/random/tile.hpp). A draw is in doubt if its first digits do not decide how it rounds.
#include "rounded_normal.hpp"

#include <algorithm>

#include "random_tiles.simd.hpp"
#include "rounded_normal.simd.hpp"
#include "runtime/parallel.hpp"
#include "split_tiles.hpp"
#include "tightdp/random/rounded_normal.hpp"

namespace tightdp {

using namespace random;

namespace {

// Number of values that a thread takes at a time, some 50 microseconds of work. Waking another thread for fewer values
// would not save time.
constexpr std::size_t kGrain = 1u << 14;
// Units of work (runtime/work_budget.hpp) for kGrain values if the standard deviation is large. Most draws then have to
// be computed one by one with more digits.
constexpr std::int64_t kUnits = kGrain * 64;
constexpr int kGroups = 4;  // number of groups in a tile
constexpr int kGroupDraws = kTileValues / kGroups;

void add_rounded_normal(std::int64_t drawn, std::int64_t& value) noexcept {
    value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(drawn));
}

// Adds the draws of a group in which some draw is in doubt (rounded_normal.simd.hpp). The draws are computed pair by
// pair, and `pair` is the number of the group's first pair.
void add_doubtful_normals(const RandomStream& stream, std::uint64_t pair, const std::uint32_t* words, Deviations sigma,
                          std::int64_t* values) noexcept {
    for (int lane = 0; lane < kLanes; ++lane) {
        const std::uint32_t w[4] = {words[lane], words[kLanes + lane], words[2 * kLanes + lane],
                                    words[3 * kLanes + lane]};
        const RoundedPair drawn =
            rounded_pair(stream, pair + static_cast<std::uint64_t>(lane), w, sigma[lane], sigma[kLanes + lane]);
        add_rounded_normal(drawn.cosine, values[lane]);
        add_rounded_normal(drawn.sine, values[kLanes + lane]);
    }
}

// Adds the draws of `count` whole tiles, at most kTilesAtOnce.
void add_rounded_normal_tiles(const RandomStream& stream, std::uint64_t tile, std::int64_t count, Deviations sigma,
                              std::int64_t* values) noexcept {
    alignas(64) std::uint32_t words[kTilesAtOnce * kTileWords];
    unsigned char doubt[kTilesAtOnce * kGroups];
    TIGHTDP_SELECT_SIMD(random_tiles)(stream, tile, count, words);
    TIGHTDP_SELECT_SIMD(add_rounded_normal_groups)(words, count * kGroups, sigma.sigma, sigma.each, values, doubt);
    for (std::int64_t g = 0; g < count * kGroups; ++g)
        if (doubt[g])
            add_doubtful_normals(stream, normal_pair_index(tile, 0, static_cast<int>(g)), words + g * 4 * kLanes,
                                 sigma.rounded_normal_deviations_from(static_cast<std::size_t>(g * kGroupDraws)),
                                 values + g * kGroupDraws);
}

}  // namespace

void add_rounded_normals_range(const RandomStream& stream, Deviations sigma, std::uint64_t first, std::size_t n,
                               std::int64_t* values) noexcept {
    split_draws_into_tiles(
        first, n,
        [&](std::uint64_t tile, std::int64_t tiles, std::size_t at) {
            add_rounded_normal_tiles(stream, tile, tiles, sigma.rounded_normal_deviations_from(at), values + at);
        },
        [&](std::uint64_t tile, std::size_t skip, std::size_t count, std::size_t at) {
            std::int64_t drawn[kTileValues] = {};
            double sigmas[kTileValues] = {};
            std::copy_n(sigma.rounded_normal_deviations_from(at).sigma, sigma.each ? count : 1,
                        sigmas + (sigma.each ? skip : 0));
            add_rounded_normal_tiles(stream, tile, 1, {sigmas, sigma.each}, drawn);
            for (std::size_t i = 0; i < count; ++i) add_rounded_normal(drawn[skip + i], values[at + i]);
        });
}

void add_rounded_normals(const RandomStream& stream, Deviations sigma, std::uint64_t first, std::size_t n,
                         std::int64_t* values) {
    parallel_pieces(n, kGrain, kUnits, [&](std::size_t begin, std::size_t end) {
        add_rounded_normals_range(stream, sigma.rounded_normal_deviations_from(begin), first + begin, end - begin,
                                  values + begin);
    });
}

}  // namespace tightdp
