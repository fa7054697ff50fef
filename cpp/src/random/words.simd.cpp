// ChaCha20 and Philox, a lane of the vector to each lane of the tile.
#include "tiles.simd.hpp"

namespace tightdp::TIGHTDP_ISA {

using namespace random;

namespace {

#if defined(TIGHTDP_ISA_avx512)
constexpr int kWidth = 16;
#elif defined(TIGHTDP_ISA_avx2)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
using Words = std::uint32_t __attribute__((vector_size(4 * kWidth)));

inline __attribute__((always_inline)) Words lane_numbers() {
    Words v;
    for (int i = 0; i < kWidth; ++i) v[i] = static_cast<std::uint32_t>(i);
    return v;
}

void chacha_tile(const RandomStream& s, std::uint64_t tile, std::uint32_t* out) {
    for (int lane = 0; lane < kLanes; lane += kWidth) {
        Words state[kChaChaWords];
        chacha20_setup(state, s.key, s.stream);
        // The 16 blocks of a tile share the high counter word: their numbers start at a multiple of 16.
        const std::uint64_t block = tile * kLanes + static_cast<std::uint64_t>(lane);
        state[12] = lane_numbers() + static_cast<std::uint32_t>(block);
        state[13] = Words{} + static_cast<std::uint32_t>(block >> 32);
        chacha20_block(state);
        for (int w = 0; w < kChaChaWords; ++w) __builtin_memcpy(out + w * kLanes + lane, &state[w], sizeof(Words));
    }
}

void philox_tile(const RandomStream& s, std::uint64_t tile, std::uint32_t* out) {
    for (int k = 0; k < kRows / kPhiloxWords; ++k) {
        std::uint32_t words[kPhiloxWords][kLanes];
        const std::uint64_t block = tile * 64 + static_cast<std::uint64_t>(16 * k);
        for (int lane = 0; lane < kLanes; ++lane) {
            std::uint32_t c[kPhiloxWords] = {static_cast<std::uint32_t>(block) + static_cast<std::uint32_t>(lane),
                                             static_cast<std::uint32_t>(block >> 32),
                                             static_cast<std::uint32_t>(s.stream),
                                             static_cast<std::uint32_t>(s.stream >> 32)};
            philox4x32_10(c, s.key[0], s.key[1]);
            for (int i = 0; i < kPhiloxWords; ++i) words[i][lane] = c[i];
        }
        __builtin_memcpy(out + k * kPhiloxWords * kLanes, words, sizeof words);
    }
}

}  // namespace

void random_tiles(const RandomStream& stream, std::uint64_t first, std::int64_t count, std::uint32_t* out) {
    const bool chacha = stream.generator == Generator::chacha20;
    for (std::int64_t t = 0; t < count; ++t) {
        const std::uint64_t tile = first + static_cast<std::uint64_t>(t);
        std::uint32_t* const to = out + t * kTileWords;
        chacha ? chacha_tile(stream, tile, to) : philox_tile(stream, tile, to);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
