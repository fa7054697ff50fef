// Computes the random words of tiles (tightdp/random/tile.hpp). ChaCha20 and Philox use one lane of a vector for each
// lane of a tile. AES-256 uses the processor's AES instructions if it has them, and otherwise planes of bits
// (tightdp/random/aes.hpp).
#include "random_tiles.simd.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

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

inline __attribute__((always_inline)) Words random_lane_numbers() {
    Words v;
    for (int i = 0; i < kWidth; ++i) v[i] = static_cast<std::uint32_t>(i);
    return v;
}

void random_chacha_tile(const RandomStream& s, std::uint64_t tile, std::uint32_t* out) {
    for (int lane = 0; lane < kLanes; lane += kWidth) {
        Words state[kChaChaWords];
        chacha20_setup(state, s.key, s.stream);
        // The 16 blocks of a tile have the same high counter word, because the number of the first block is a multiple
        // of 16.
        const std::uint64_t block = tile * kLanes + static_cast<std::uint64_t>(lane);
        state[12] = random_lane_numbers() + static_cast<std::uint32_t>(block);
        state[13] = Words{} + static_cast<std::uint32_t>(block >> 32);
        chacha20_block(state);
        for (int w = 0; w < kChaChaWords; ++w) __builtin_memcpy(out + w * kLanes + lane, &state[w], sizeof(Words));
    }
}

void random_philox_tile(const RandomStream& s, std::uint64_t tile, std::uint32_t* out) {
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

#if defined(__AVX2__)
// The types and functions for AES on registers of `bytes` bytes. The AES instructions below are written in assembler,
// which needs no compiler flag. The caller checks with AesUnit that the processor has these instructions.
template <int bytes>
struct AesRegister;
template <>
struct AesRegister<16> {
    using Word = __m128i;
    static inline __attribute__((always_inline)) Word repeat(__m128i block) { return block; }
    static inline __attribute__((always_inline)) Word low32(Word a, Word b) { return _mm_unpacklo_epi32(a, b); }
    static inline __attribute__((always_inline)) Word high32(Word a, Word b) { return _mm_unpackhi_epi32(a, b); }
    static inline __attribute__((always_inline)) Word low64(Word a, Word b) { return _mm_unpacklo_epi64(a, b); }
    static inline __attribute__((always_inline)) Word high64(Word a, Word b) { return _mm_unpackhi_epi64(a, b); }
};
template <>
struct AesRegister<32> {
    using Word = __m256i;
    static inline __attribute__((always_inline)) Word repeat(__m128i block) {
        return _mm256_broadcastsi128_si256(block);
    }
    static inline __attribute__((always_inline)) Word low32(Word a, Word b) { return _mm256_unpacklo_epi32(a, b); }
    static inline __attribute__((always_inline)) Word high32(Word a, Word b) { return _mm256_unpackhi_epi32(a, b); }
    static inline __attribute__((always_inline)) Word low64(Word a, Word b) { return _mm256_unpacklo_epi64(a, b); }
    static inline __attribute__((always_inline)) Word high64(Word a, Word b) { return _mm256_unpackhi_epi64(a, b); }
};
#if defined(TIGHTDP_ISA_avx512)
template <>
struct AesRegister<64> {  // uses masked intrinsics with full masks, since GCC 12 gives false warnings for others
    using Word = __m512i;
    static inline __attribute__((always_inline)) Word repeat(__m128i block) {
        return _mm512_maskz_broadcast_i32x4(0xffff, block);
    }
    static inline __attribute__((always_inline)) Word low32(Word a, Word b) {
        return _mm512_maskz_unpacklo_epi32(0xffff, a, b);
    }
    static inline __attribute__((always_inline)) Word high32(Word a, Word b) {
        return _mm512_maskz_unpackhi_epi32(0xffff, a, b);
    }
    static inline __attribute__((always_inline)) Word low64(Word a, Word b) {
        return _mm512_maskz_unpacklo_epi64(0xff, a, b);
    }
    static inline __attribute__((always_inline)) Word high64(Word a, Word b) {
        return _mm512_maskz_unpackhi_epi64(0xff, a, b);
    }
};
#endif

// The constraint "x" allows only the first sixteen registers. Every processor with AES and AVX can run
// 128-bit instructions with these registers. With other registers, the instructions would need VAES and AVX-512.
template <class Word>
inline __attribute__((always_inline)) void aes_round(Word& x, const Word& key) {
    if constexpr (sizeof(Word) == 16) {
        asm("vaesenc %1, %0, %0" : "+x"(x) : "x"(key));
    } else {
        asm("vaesenc %1, %0, %0" : "+v"(x) : "v"(key));
    }
}
template <class Word>
inline __attribute__((always_inline)) void aes_last_round(Word& x, const Word& key) {
    if constexpr (sizeof(Word) == 16) {
        asm("vaesenclast %1, %0, %0" : "+x"(x) : "x"(key));
    } else {
        asm("vaesenclast %1, %0, %0" : "+v"(x) : "v"(key));
    }
}

// The numbers of a tile's 64 blocks, laid out in registers for an XOR with the counter blocks. The registers form
// groups of four, and register i of a group has the blocks 4 p + i for successive values of p. The transposition in
// random_tiles_by_aes_unit brings the encrypted words into the order of the tile.
template <int blocks>
struct BlockNumbers {
    alignas(64) std::uint32_t words[64 / blocks][4 * blocks] = {};
    constexpr BlockNumbers() {
        for (std::uint32_t p = 0; p < 16; ++p)
            for (std::uint32_t i = 0; i < 4; ++i)  // the last byte of a block is the least significant
                words[4 * (p / blocks) + i][4 * (p % blocks) + 3] = (4 * p + i) << 24;
    }
};
template <int blocks>
constexpr BlockNumbers<blocks> kNumbers;

// Computes the words of `count` tiles by AES instructions. The function encrypts eight registers at a time, since the
// result of a round is available only after three or four cycles.
template <int bytes>
void random_tiles_by_aes_unit(const RandomStream& s, std::uint64_t first, std::int64_t count, std::uint32_t* out) {
    using Register = AesRegister<bytes>;
    using Word = typename Register::Word;
    constexpr int kBlocks = bytes / 16, kTogether = 8;  // blocks in a register, and registers at a time
    Word keys[kAesRounds + 1];
    for (int r = 0; r <= kAesRounds; ++r) {
        __m128i key;
        __builtin_memcpy(&key, s.round_keys + 4 * r, sizeof key);
        keys[r] = Register::repeat(key);
    }
    for (std::int64_t t = 0; t < count; ++t, out += kTileWords) {
        std::uint32_t counter[4];
        aes_counter(s.stream, 64 * (first + static_cast<std::uint64_t>(t)), counter);
        __m128i start;
        __builtin_memcpy(&start, counter, sizeof start);
        const Word whitened = Register::repeat(start) ^ keys[0];
        for (int p = 0; p < 16; p += kTogether / 4 * kBlocks) {
            Word x[kTogether];
#pragma GCC unroll 8
            for (int v = 0; v < kTogether; ++v) {
                __builtin_memcpy(&x[v], kNumbers<kBlocks>.words[4 * p / kBlocks + v], sizeof x[v]);
                x[v] ^= whitened;
            }
#pragma GCC unroll 14
            for (int r = 1; r < kAesRounds; ++r)
#pragma GCC unroll 8
                for (int v = 0; v < kTogether; ++v) aes_round(x[v], keys[r]);
#pragma GCC unroll 8
            for (int v = 0; v < kTogether; ++v) aes_last_round(x[v], keys[kAesRounds]);
#pragma GCC unroll 2
            for (int q = 0; q < kTogether / 4; ++q) {
                const Word* const y = x + 4 * q;
                const Word a = Register::low32(y[0], y[1]), b = Register::low32(y[2], y[3]);
                const Word c = Register::high32(y[0], y[1]), d = Register::high32(y[2], y[3]);
                const Word rows[4] = {Register::low64(a, b), Register::high64(a, b), Register::low64(c, d),
                                      Register::high64(c, d)};
                const int place = p + q * kBlocks;  // index of a group of 4 blocks. Four groups fill 4 rows of a tile
                std::uint32_t* const to = out + place / 4 * 4 * kLanes + place % 4 * 4;
                for (int w = 0; w < 4; ++w) __builtin_memcpy(to + w * kLanes, &rows[w], sizeof rows[w]);
            }
        }
    }
}
#endif

// The 64 blocks of a tile as 64-bit words, in which each block has one bit. The word [p][i] is called a plane, and
// holds bit i of byte p of all blocks.
using Planes = std::uint64_t[16][8];

// Transposes a matrix of 32 x 32 bits in place. At first, row b holds bit b of one word of each of 32 blocks. In the
// end, row l holds all bits of this word of block l.
inline void transpose_random_words(std::uint32_t (&a)[32]) {
    std::uint32_t mask = 0x0000ffff;
    for (int j = 16; j != 0; j >>= 1, mask ^= mask << j)
        for (int k = 0; k < 32; k = (k + j + 1) & ~j) {
            const std::uint32_t moved = (a[k] >> j ^ a[k + j]) & mask;
            a[k + j] ^= moved;
            a[k] ^= moved << j;
        }
}

void random_aes_tile_in_planes(const RandomStream& s, std::uint64_t tile, std::uint32_t* out) {
    Planes x, y;
    const auto whole = [](std::uint32_t word, int bit) { return std::uint64_t{0} - (word >> bit & 1); };
    std::uint32_t counter[4];
    aes_counter(s.stream, 64 * tile, counter);
    // The planes of the block numbers 0 to 63 within the tile. Word i holds bit i of all 64 numbers.
    constexpr std::uint64_t kNumbers[6] = {0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0,
                                           0xff00ff00ff00ff00, 0xffff0000ffff0000, 0xffffffff00000000};
    for (int p = 0; p < 16; ++p)
        for (int i = 0; i < 8; ++i) {
            x[p][i] = whole(counter[p / 4] ^ s.round_keys[p / 4], 8 * (p % 4) + i);
            if (p == 15 && i < 6) x[p][i] ^= kNumbers[i];
        }
    for (int round = 1; round <= kAesRounds; ++round) {
        for (int p = 0; p < 16; ++p) aes_substitute(x[p]);
        for (int c = 0; c < 4; ++c)
            for (int r = 0; r < 4; ++r) {
                const auto byte = [&](int row) -> const std::uint64_t (&)[8] {
                    return x[4 * ((c + row % 4) % 4) + row % 4];  // the byte of this row in column c after ShiftRows
                };
                const auto &a = byte(r), &b = byte(r + 1), &d = byte(r + 2), &e = byte(r + 3);
                for (int i = 0; i < 8; ++i) {
                    const std::uint64_t key = whole(s.round_keys[4 * round + c], 8 * r + i);
                    const std::uint64_t carried = i == 1 || i == 3 || i == 4 ? a[7] ^ b[7] : 0;
                    const std::uint64_t doubled = a[(i + 7) % 8] ^ b[(i + 7) % 8] ^ carried;
                    y[4 * c + r][i] = key ^ (round < kAesRounds ? doubled ^ b[i] ^ d[i] ^ e[i] : a[i]);
                }
            }
        __builtin_memcpy(x, y, sizeof x);
    }
    for (int c = 0; c < 4; ++c)
        for (int half = 0; half < 2; ++half) {
            std::uint32_t words[32];
            for (int b = 0; b < 32; ++b) words[b] = static_cast<std::uint32_t>(x[4 * c + b / 8][b % 8] >> (32 * half));
            transpose_random_words(words);
            for (int l = 0; l < 32; ++l) out[(4 * ((32 * half + l) / 16) + c) * kLanes + l % 16] = words[l];
        }
}

}  // namespace

void random_aes256_tiles(const RandomStream& stream, AesUnit unit, std::uint64_t first, std::int64_t count,
                         std::uint32_t* out) {
#if defined(TIGHTDP_ISA_avx512)
    if (unit == AesUnit::wide) return random_tiles_by_aes_unit<64>(stream, first, count, out);
#elif defined(__AVX2__)
    if (unit == AesUnit::wide) return random_tiles_by_aes_unit<32>(stream, first, count, out);
#endif
#if defined(__AVX2__)
    if (unit == AesUnit::narrow) return random_tiles_by_aes_unit<16>(stream, first, count, out);
#endif
    static_cast<void>(unit);
    for (std::int64_t t = 0; t < count; ++t)
        random_aes_tile_in_planes(stream, first + static_cast<std::uint64_t>(t), out + t * kTileWords);
}

void random_tiles(const RandomStream& stream, std::uint64_t first, std::int64_t count, std::uint32_t* out) {
    if (stream.generator == Generator::aes256)
        return random_aes256_tiles(stream, dispatched_aes_unit(), first, count, out);
    const bool chacha = stream.generator == Generator::chacha20;
    for (std::int64_t t = 0; t < count; ++t) {
        const std::uint64_t tile = first + static_cast<std::uint64_t>(t);
        std::uint32_t* const to = out + t * kTileWords;
        chacha ? random_chacha_tile(stream, tile, to) : random_philox_tile(stream, tile, to);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
