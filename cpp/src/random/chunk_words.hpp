// Random words for exact samplers. It is random how many words a draw uses. So each chunk of draws has its own part of
// the stream, and the values do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "random_tiles.simd.hpp"

namespace tightdp {

// Number of draws in a chunk.
inline constexpr std::size_t kChunkDraws = 256;
// Base-2 logarithm of the number of tiles of words (tightdp/random/tile.hpp) that a chunk may use. These tiles have
// 2^32 words, whereas a chunk needs some 10^4 words. A tile has 64 blocks of the generator, so the block numbers of
// 2^34 chunks still fit in 64 bits.
inline constexpr int kTilesPerChunkLog2 = 24;

// The random words of one chunk. The words are computed a few tiles at a time.
class ChunkWords {
  public:
    ChunkWords(const random::RandomStream& stream, std::uint64_t chunk) noexcept
        : stream_(stream), tile_(chunk << kTilesPerChunkLog2) {}

    std::uint64_t draw_random_word() noexcept {
        if (used_ + 2 > kWords) refill_chunk_words();
        const std::uint64_t high = words_[used_], low = words_[used_ + 1];
        used_ += 2;
        return high << 32 | low;
    }

    bool draw_random_bit() noexcept {
        if (bits_left_ == 0) {
            bits_ = draw_random_word();
            bits_left_ = 64;
        }
        return bits_ >> --bits_left_ & 1;
    }

  private:
    static constexpr std::int64_t kTiles = 4;
    static constexpr int kWords = kTiles * random::kTileWords;

    void refill_chunk_words() noexcept {
        TIGHTDP_SELECT_SIMD(random_tiles)(stream_, tile_, kTiles, words_);
        tile_ += kTiles;
        used_ = 0;
    }

    const random::RandomStream& stream_;
    std::uint64_t tile_;
    int used_ = kWords;
    std::uint64_t bits_ = 0;
    int bits_left_ = 0;
    alignas(64) std::uint32_t words_[kWords];
};

}  // namespace tightdp
