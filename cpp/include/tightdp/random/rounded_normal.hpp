// Samples floor(sigma Z + 1/2) for a standard normal real number Z, without any error. Z is computed from two uniform
// real numbers x and y by the transform of Box and Muller. Binary digits of x and y are drawn until they determine the
// integer (docs/theory/noise.md, section 5). Compile without contraction to fused multiply-adds (normal.hpp).
#pragma once

#include "../exact/box_muller.hpp"
#include "rounding.hpp"
#include "tile.hpp"

namespace tightdp::random {

// The binary digits of the two uniform numbers x and y of a pair of draws. A call returns group j of 64 digits of
// x and of y, where group 0 has the first 64 digits.
template <int first_bits>
struct PairDigits {
    const RandomStream& stream;
    std::uint64_t pair;  // number of the pair in the stream
    std::uint64_t x, y;  // the first 64 digits of each number

    TIGHTDP_HD void operator()(int j, std::uint64_t& of_x, std::uint64_t& of_y) const noexcept {
        // Tests use first_bits < 64. Then only the first `first_bits` digits are taken from the members x and y, and
        // the digits after them come from further words (tile.hpp). `open` marks the digits from further words.
        constexpr std::uint64_t open = first_bits < 64 ? ~std::uint64_t{0} >> (first_bits % 64) : 0;
        std::uint32_t further[4] = {};
        if (j > 0 || open != 0) further_random_words(stream, pair, static_cast<std::uint32_t>(j), further);
        of_x = static_cast<std::uint64_t>(further[0]) << 32 | further[1];
        of_y = static_cast<std::uint64_t>(further[2]) << 32 | further[3];
        if (j > 0) return;
        of_x = (x & ~open) | (of_x & open);
        of_y = (y & ~open) | (of_y & open);
    }
};

// Returns the two integers of the pair with the number `pair` (normal_pair_index in tile.hpp), whose words in the tile
// are w. sigma_cosine and sigma_sine are the standard deviations of the two normals. A draw is in doubt if its first
// digits do not decide how it rounds (rounding.hpp). Such draws are settled here with further digits, and they stay
// marked as in doubt.
template <int first_bits = 64>
TIGHTDP_HD inline RoundedPair rounded_pair(const RandomStream& stream, std::uint64_t pair, const std::uint32_t (&w)[4],
                                           double sigma_cosine, double sigma_sine) noexcept {
    RoundedPair rounded =
        round_normal_pair<first_bits>(normal_rounding_limits<first_bits>(sigma_cosine),
                                      normal_rounding_limits<first_bits>(sigma_sine), w[0], w[1], w[2], w[3]);
    const PairDigits<first_bits> digits{stream, pair, static_cast<std::uint64_t>(w[0]) << 32 | w[1],
                                        static_cast<std::uint64_t>(w[2]) << 32 | w[3]};
    if (rounded.cosine_in_doubt) rounded.cosine = exact::round_box_muller_exactly(sigma_cosine, false, digits);
    if (rounded.sine_in_doubt) rounded.sine = exact::round_box_muller_exactly(sigma_sine, true, digits);
    return rounded;
}

// One draw of a stream.
struct RoundedDraw {
    std::int64_t integer;
    bool in_doubt;  // whether further digits were needed
};

// Computes a single draw, the draw with the number `index`. Threads of a device (GPU) use this function.
template <int first_bits = 64>
TIGHTDP_HD inline RoundedDraw rounded_normal_at(const RandomStream& stream, std::uint64_t index,
                                                double sigma) noexcept {
    const std::uint64_t tile = index / kTileValues;
    const int rest = static_cast<int>(index % kTileValues), k = rest / (2 * kLanes), lane = rest % kLanes;
    std::uint32_t words[4];
    random_lane_words(stream, tile, lane, k, words);
    // The other normal of the pair is not needed and gets the deviation 0. A normal with this deviation is in doubt
    // only if the first digits of x are outside of the limits `lowest` and `highest` (rounding.hpp).
    const bool sine = rest % (2 * kLanes) >= kLanes;
    const RoundedPair pair =
        rounded_pair<first_bits>(stream, normal_pair_index(tile, lane, k), words, sine ? 0 : sigma, sine ? sigma : 0);
    return sine ? RoundedDraw{pair.sine, pair.sine_in_doubt} : RoundedDraw{pair.cosine, pair.cosine_in_doubt};
}

}  // namespace tightdp::random
