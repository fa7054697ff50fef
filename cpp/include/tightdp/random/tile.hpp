// Defines the order of random words. A random value is a function of (key, stream, index) alone. This value is the same
// on every machine, and does not depend on how the work is split over threads and devices (GPUs).
//
// Words come in tiles of 256, arranged as 16 rows of 16 lanes. A row is contiguous in memory. A lane is the work of one
// SIMD lane or one GPU thread. Each generator fills tile t with its blocks as follows:
//     ChaCha20   block 16 t + l fills lane l; word w of the block is in row w.
//     Philox and AES-256
//                block 64 t + 16 k + l fills rows 4k .. 4k+3 of lane l.
// The high half of a 64-bit value is the word in row 2r of a lane l, and the low half is the word in row 2r + 1. The
// index of the value within the tile is 16 r + l, so a tile has 128 values. A pair of normals uses the four words of
// rows 4k .. 4k+3 of a lane l. The indices of the two normals within the tile are 32 k + l and 32 k + 16 + l, so a tile
// has 128 normals.
#pragma once

#include <cstdint>

#include "aes.hpp"
#include "chacha20.hpp"
#include "philox.hpp"

namespace tightdp::random {

inline constexpr int kLanes = 16;
inline constexpr int kRows = 16;
inline constexpr int kTileWords = kLanes * kRows;
inline constexpr int kTileValues = kTileWords / 2;  // 64-bit values, or normals

enum class Generator : std::uint32_t { chacha20, philox, aes256 };

// One stream of random words. Philox uses key[0] and key[1].
struct RandomStream {
    Generator generator;
    std::uint32_t key[8];
    std::uint64_t stream;
    std::uint32_t round_keys[kAesScheduleWords] = {};  // used by AES-256 only
};

// Returns the stream of AES-256 with this key and stream number, and computes its round keys.
TIGHTDP_HD inline RandomStream aes256_stream(const std::uint32_t (&key)[8], std::uint64_t stream) noexcept {
    RandomStream s{Generator::aes256, {}, stream};
    for (int i = 0; i < 8; ++i) s.key[i] = key[i];
    aes256_schedule(s.key, s.round_keys);
    return s;
}

// Computes the 16 words of a block of ChaCha20.
TIGHTDP_FORMULA void chacha20_words(const RandomStream& s, std::uint64_t block,
                                    std::uint32_t (&out)[kChaChaWords]) noexcept {
    chacha20_setup(out, s.key, s.stream);
    out[12] = static_cast<std::uint32_t>(block);
    out[13] = static_cast<std::uint32_t>(block >> 32);
    chacha20_block(out);
}

// Computes words 4k .. 4k+3 of a block of ChaCha20, or the four words of a block of Philox or AES-256.
TIGHTDP_FORMULA void random_block_words(const RandomStream& s, std::uint64_t block, int k,
                                        std::uint32_t (&out)[4]) noexcept {
    if (s.generator == Generator::chacha20) {
        std::uint32_t words[kChaChaWords];
        chacha20_words(s, block, words);
        for (int i = 0; i < 4; ++i) out[i] = words[4 * k + i];
    } else if (s.generator == Generator::aes256) {
        aes_counter(s.stream, block, out);
        aes256_encrypt(s.round_keys, out);
    } else {
        out[0] = static_cast<std::uint32_t>(block);
        out[1] = static_cast<std::uint32_t>(block >> 32);
        out[2] = static_cast<std::uint32_t>(s.stream);
        out[3] = static_cast<std::uint32_t>(s.stream >> 32);
        philox4x32_10(out, s.key[0], s.key[1]);
    }
}

// Computes the words in rows 4k .. 4k+3 of a lane of a tile.
TIGHTDP_FORMULA void random_lane_words(const RandomStream& s, std::uint64_t tile, int lane, int k,
                                       std::uint32_t (&out)[4]) noexcept {
    const bool chacha = s.generator == Generator::chacha20;
    const std::uint64_t first = chacha ? tile * kLanes : tile * 64 + static_cast<std::uint64_t>(16 * k);
    random_block_words(s, first + static_cast<std::uint64_t>(lane), k, out);
}

// Returns the index, among all pairs of normals, of the pair that uses the words in rows 4k .. 4k+3 of a lane of a
// tile.
TIGHTDP_FORMULA std::uint64_t normal_pair_index(std::uint64_t tile, int lane, int k) noexcept {
    return tile * (kTileValues / 2) + static_cast<std::uint64_t>(kLanes * k + lane);
}

// Computes group j of the further words of a pair, for draws whose words in the tile are not enough. The four words of
// group j are the first four words of block 2^63 + 2^16 pair + j. The tiles of all values and normals with indices
// below 2^64 consist of blocks below 2^63, so no word is used twice (docs/theory/noise.md, section 5). Preconditions:
// pair < 2^47 and j < 2^16.
TIGHTDP_FORMULA void further_random_words(const RandomStream& s, std::uint64_t pair, std::uint32_t j,
                                          std::uint32_t (&out)[4]) noexcept {
    random_block_words(s, std::uint64_t{1} << 63 | pair << 16 | j, 0, out);
}

}  // namespace tightdp::random
