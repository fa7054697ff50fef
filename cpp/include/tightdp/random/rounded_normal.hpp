// floor(sigma Z + 1/2) for an exactly normal real number Z: Box and Muller's transform of two real uniforms,
// of which as many binary digits are drawn as the integer depends on. docs/theory/noise.md, section 5.
// Compile without contraction (normal.hpp).
#pragma once

#include "../exact/box_muller.hpp"
#include "rounding.hpp"
#include "tile.hpp"

namespace tightdp::random {

// 64 binary digits of the two uniforms of a pair at a time.
template <int first_bits>
struct PairDigits {
    const RandomStream& stream;
    std::uint64_t pair;
    std::uint64_t x, y;  // the first

    TIGHTDP_HD void operator()(int j, std::uint64_t& of_x, std::uint64_t& of_y) const noexcept {
        // Only `first_bits` digits of the first word were looked at. In tests the digits after them come from further
        // words.
        constexpr std::uint64_t open = first_bits < 64 ? ~std::uint64_t{0} >> (first_bits % 64) : 0;
        std::uint32_t further[4] = {};
        if (j > 0 || open != 0) further_words(stream, pair, static_cast<std::uint32_t>(j), further);
        of_x = static_cast<std::uint64_t>(further[0]) << 32 | further[1];
        of_y = static_cast<std::uint64_t>(further[2]) << 32 | further[3];
        if (j > 0) return;
        of_x = (x & ~open) | (of_x & open);
        of_y = (y & ~open) | (of_y & open);
    }
};

// The two integers of pair `pair` of a stream (tile.hpp: 64 tile + 16 k + lane), whose words in the tile are w.
template <int first_bits = 64>
TIGHTDP_HD inline RoundedPair rounded_pair(const RandomStream& stream, std::uint64_t pair, const std::uint32_t (&w)[4],
                                           double sigma_cosine, double sigma_sine) noexcept {
    RoundedPair rounded =
        nearest_pair<first_bits>(rounding_limits<first_bits>(sigma_cosine),
                                 rounding_limits<first_bits>(sigma_sine), w[0], w[1], w[2], w[3]);
    const PairDigits<first_bits> digits{stream, pair, static_cast<std::uint64_t>(w[0]) << 32 | w[1],
                                        static_cast<std::uint64_t>(w[2]) << 32 | w[3]};
    if (rounded.cosine_in_doubt) rounded.cosine = exact::settle_normal(sigma_cosine, false, digits);
    if (rounded.sine_in_doubt) rounded.sine = exact::settle_normal(sigma_sine, true, digits);
    return rounded;
}

// Draw `index` of a stream alone, as a thread of a device takes it, and whether its floats left it in doubt.
struct RoundedDraw {
    std::int64_t integer;
    bool in_doubt;
};

template <int first_bits = 64>
TIGHTDP_HD inline RoundedDraw rounded_normal_at(const RandomStream& stream, std::uint64_t index,
                                                double sigma) noexcept {
    const std::uint64_t tile = index / kTileValues;
    const int rest = static_cast<int>(index % kTileValues), k = rest / (2 * kLanes), lane = rest % kLanes;
    std::uint32_t words[4];
    lane_words(stream, tile, lane, k, words);
    // The other normal of the pair is not asked for: with deviation 0 it is in doubt only outside of the window.
    const bool sine = rest % (2 * kLanes) >= kLanes;
    const RoundedPair pair =
        rounded_pair<first_bits>(stream, pair_of(tile, lane, k), words, sine ? 0 : sigma, sine ? sigma : 0);
    return sine ? RoundedDraw{pair.sine, pair.sine_in_doubt} : RoundedDraw{pair.cosine, pair.cosine_in_doubt};
}

}  // namespace tightdp::random
