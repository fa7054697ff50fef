// The ChaCha20 block function (RFC 8439, section 2.3).
//
// Word is std::uint32_t, or a GCC/Clang vector of such words. In a vector, each lane computes a separate block. The
// state is laid out as in Bernstein's original: a 64-bit block counter in words 12 and 13, and a 64-bit stream number
// in words 14 and 15. RFC 8439 splits the same 128 bits into 32 and 96 bits. To use the test vectors of the RFC, set
// all four words.
#pragma once

#include <cstdint>

#include "../config.hpp"

namespace tightdp::random {

inline constexpr int kChaChaWords = 16;

template <int n, class Word>
TIGHTDP_FORMULA Word rotate_left(Word x) noexcept {
    return (x << n) | (x >> (32 - n));
}

template <class Word>
TIGHTDP_FORMULA void chacha_quarter_round(Word& a, Word& b, Word& c, Word& d) noexcept {
    a += b;
    d = rotate_left<16>(Word(d ^ a));
    c += d;
    b = rotate_left<12>(Word(b ^ c));
    a += b;
    d = rotate_left<8>(Word(d ^ a));
    c += d;
    b = rotate_left<7>(Word(b ^ c));
}

// Replaces the 16 words of `state` by the 16 words of the key stream block. The function takes constant time: no branch
// or address depends on the data.
template <class Word>
TIGHTDP_FORMULA void chacha20_block(Word (&state)[kChaChaWords]) noexcept {
    Word x[kChaChaWords];
    for (int i = 0; i < kChaChaWords; ++i) x[i] = state[i];
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 4; ++i) chacha_quarter_round(x[i], x[4 + i], x[8 + i], x[12 + i]);
        for (int i = 0; i < 4; ++i)
            chacha_quarter_round(x[i], x[4 + (i + 1) % 4], x[8 + (i + 2) % 4], x[12 + (i + 3) % 4]);
    }
    for (int i = 0; i < kChaChaWords; ++i) state[i] += x[i];
}

// Writes the constants "expand 32-byte k", the key and the stream number to the state. The caller sets words 12 and 13,
// the block counter.
template <class Word>
TIGHTDP_FORMULA void chacha20_setup(Word (&state)[kChaChaWords], const std::uint32_t (&key)[8],
                                    std::uint64_t stream) noexcept {
    const std::uint32_t sigma[4] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    for (int i = 0; i < 4; ++i) state[i] = Word{} + sigma[i];
    for (int i = 0; i < 8; ++i) state[4 + i] = Word{} + key[i];
    state[14] = Word{} + static_cast<std::uint32_t>(stream);
    state[15] = Word{} + static_cast<std::uint32_t>(stream >> 32);
}

}  // namespace tightdp::random
