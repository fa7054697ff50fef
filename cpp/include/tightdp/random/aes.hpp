// AES-256 (FIPS 197) as a stream of words: counter mode (SP 800-38A, section 6.5).
//
// The code uses no tables. A table would be read at addresses that depend on the key, and other processes could find
// these addresses by timing the cache. Instead, bytes are split into planes: plane i of some bytes holds bit i of each
// byte. The S-box is the circuit of Boyar and Peralta ("A depth-16 circuit for the AES S-box", 2011) on eight planes. A
// plane has the type `Word`, which is an unsigned integer type, or a GCC/Clang vector of such a type.
//
// A block is four little-endian words, so that word c is column c of the state. Counter block b of a stream is the
// 128-bit number 2^64 * stream + b with its highest byte first, as in the standard.
#pragma once

#include <cstdint>

#include "../config.hpp"

namespace tightdp::random {

inline constexpr int kAesRounds = 14, kAesBlockWords = 4;
inline constexpr int kAesScheduleWords = kAesBlockWords * (kAesRounds + 1);

// Applies the S-box to bytes that are split into planes. x[i] is the plane of bit i.
template <class Word>
TIGHTDP_FORMULA void aes_substitute(Word (&x)[8]) noexcept {
    const Word x0 = x[7], x1 = x[6], x2 = x[5], x3 = x[4], x4 = x[3], x5 = x[2], x6 = x[1], x7 = x[0];
    // Each byte is an element of the field with 2^8 elements. Expresses the elements in terms of a subfield.
    const Word y14 = x3 ^ x5, y13 = x0 ^ x6, y9 = x0 ^ x3, y8 = x0 ^ x5, t0 = x1 ^ x2, y1 = t0 ^ x7, y4 = y1 ^ x3;
    const Word y12 = y13 ^ y14, y2 = y1 ^ x0, y5 = y1 ^ x6, y3 = y5 ^ y8, t1 = x4 ^ y12, y15 = t1 ^ x5, y20 = t1 ^ x1;
    const Word y6 = y15 ^ x7, y10 = y15 ^ t0, y11 = y20 ^ y9, y7 = x7 ^ y11, y17 = y10 ^ y11, y19 = y10 ^ y8;
    const Word y16 = t0 ^ y11, y21 = y13 ^ y16, y18 = x0 ^ y16;
    // Inverts the elements.
    const Word t2 = y12 & y15, t3 = y3 & y6, t4 = t3 ^ t2, t5 = y4 & x7, t6 = t5 ^ t2, t7 = y13 & y16, t8 = y5 & y1;
    const Word t9 = t8 ^ t7, t10 = y2 & y7, t11 = t10 ^ t7, t12 = y9 & y11, t13 = y14 & y17, t14 = t13 ^ t12;
    const Word t15 = y8 & y10, t16 = t15 ^ t12, t17 = t4 ^ t14, t18 = t6 ^ t16, t19 = t9 ^ t14, t20 = t11 ^ t16;
    const Word t21 = t17 ^ y20, t22 = t18 ^ y19, t23 = t19 ^ y21, t24 = t20 ^ y18, t25 = t21 ^ t22, t26 = t21 & t23;
    const Word t27 = t24 ^ t26, t28 = t25 & t27, t29 = t28 ^ t22, t30 = t23 ^ t24, t31 = t22 ^ t26, t32 = t31 & t30;
    const Word t33 = t32 ^ t24, t34 = t23 ^ t33, t35 = t27 ^ t33, t36 = t24 & t35, t37 = t36 ^ t34, t38 = t27 ^ t36;
    const Word t39 = t29 & t38, t40 = t25 ^ t39, t41 = t40 ^ t37, t42 = t29 ^ t33, t43 = t29 ^ t40, t44 = t33 ^ t37;
    const Word t45 = t42 ^ t41;
    const Word z0 = t44 & y15, z1 = t37 & y6, z2 = t33 & x7, z3 = t43 & y16, z4 = t40 & y1, z5 = t29 & y7;
    const Word z6 = t42 & y11, z7 = t45 & y17, z8 = t41 & y10, z9 = t44 & y12, z10 = t37 & y3, z11 = t33 & y4;
    const Word z12 = t43 & y13, z13 = t40 & y5, z14 = t29 & y2, z15 = t42 & y9, z16 = t45 & y14, z17 = t41 & y8;
    // Transforms the inverses back to bytes, and applies the affine map.
    const Word t46 = z15 ^ z16, t47 = z10 ^ z11, t48 = z5 ^ z13, t49 = z9 ^ z10, t50 = z2 ^ z12, t51 = z2 ^ z5;
    const Word t52 = z7 ^ z8, t53 = z0 ^ z3, t54 = z6 ^ z7, t55 = z16 ^ z17, t56 = z12 ^ t48, t57 = t50 ^ t53;
    const Word t58 = z4 ^ t46, t59 = z3 ^ t54, t60 = t46 ^ t57, t61 = z14 ^ t57, t62 = t52 ^ t58, t63 = t49 ^ t58;
    const Word t64 = z4 ^ t59, t65 = t61 ^ t62, t66 = z1 ^ t63, t67 = t64 ^ t65;
    const Word s3 = t53 ^ t66;
    x[7] = t59 ^ t63;
    x[6] = t64 ^ ~s3;
    x[5] = t55 ^ ~t67;
    x[4] = s3;
    x[3] = t51 ^ t66;
    x[2] = t47 ^ t65;
    x[1] = t56 ^ ~t62;
    x[0] = t48 ^ ~t60;
}

// aes_slice writes the four bytes of a word to the bits `at` to `at + 3` of the planes. aes_unslice reads them back.
TIGHTDP_FORMULA void aes_slice(std::uint32_t word, int at, std::uint32_t (&planes)[8]) noexcept {
    for (int i = 0; i < 8; ++i)
        for (int byte = 0; byte < 4; ++byte) planes[i] |= (word >> (8 * byte + i) & 1) << (at + byte);
}
TIGHTDP_FORMULA std::uint32_t aes_unslice(const std::uint32_t (&planes)[8], int at) noexcept {
    std::uint32_t word = 0;
    for (int i = 0; i < 8; ++i)
        for (int byte = 0; byte < 4; ++byte) word |= (planes[i] >> (at + byte) & 1) << (8 * byte + i);
    return word;
}

// Computes the round keys from a key (FIPS 197, section 5.2).
TIGHTDP_HD_STAGE inline void aes256_schedule(const std::uint32_t (&key)[8],
                                             std::uint32_t (&schedule)[kAesScheduleWords]) noexcept {
    std::uint32_t constant = 1;
    for (int i = 0; i < 8; ++i) schedule[i] = key[i];
    for (int i = 8; i < kAesScheduleWords; ++i) {
        std::uint32_t word = schedule[i - 1];
        if (i % 8 == 0) word = word >> 8 | word << 24;
        if (i % 4 == 0) {
            std::uint32_t planes[8] = {};
            aes_slice(word, 0, planes);
            aes_substitute(planes);
            word = aes_unslice(planes, 0);
        }
        if (i % 8 == 0) {
            word ^= constant;
            constant <<= 1;
        }
        schedule[i] = schedule[i - 8] ^ word;
    }
}

// Applies ShiftRows to the planes of one block and, if `columns`, MixColumns. Bit 4 c + r of a plane belongs to byte r
// of word c. The last round of AES has no MixColumns.
TIGHTDP_FORMULA void aes_mix_block(std::uint32_t (&x)[8], bool columns) noexcept {
    std::uint32_t turned[8];  // at the place of each byte, the next byte of its column
    for (int i = 0; i < 8; ++i) {
        const std::uint32_t twice = (x[i] & 0xffff) | x[i] << 16;  // a block fills the lower 16 bits of a plane
        x[i] = (twice & 0x1111) | (twice >> 4 & 0x2222) | (twice >> 8 & 0x4444) | (twice >> 12 & 0x8888);
        turned[i] = (x[i] >> 1 & 0x7777) | (x[i] << 3 & 0x8888);
    }
    if (!columns) return;
    std::uint32_t both[8];
    for (int i = 0; i < 8; ++i) both[i] = x[i] ^ turned[i];
    for (int i = 0; i < 8; ++i) {
        const bool carries = i == 1 || i == 3 || i == 4;  // reduction modulo x^8 + x^4 + x^3 + x + 1
        const std::uint32_t doubled = both[(i + 7) % 8] ^ (carries ? both[7] : 0);
        x[i] = doubled ^ turned[i] ^ ((both[i] >> 2 & 0x3333) | (both[i] << 2 & 0xcccc));
    }
}

TIGHTDP_FORMULA std::uint32_t aes_reverse_bytes(std::uint32_t x) noexcept {
    return x >> 24 | (x >> 8 & 0xff00) | (x & 0xff00) << 8 | x << 24;
}

// Computes the words of counter block `block`, not yet encrypted.
TIGHTDP_FORMULA void aes_counter(std::uint64_t stream, std::uint64_t block,
                                 std::uint32_t (&out)[kAesBlockWords]) noexcept {
    out[0] = aes_reverse_bytes(static_cast<std::uint32_t>(stream >> 32));
    out[1] = aes_reverse_bytes(static_cast<std::uint32_t>(stream));
    out[2] = aes_reverse_bytes(static_cast<std::uint32_t>(block >> 32));
    out[3] = aes_reverse_bytes(static_cast<std::uint32_t>(block));
}

// Replaces `block` by its encryption.
TIGHTDP_HD_STAGE inline void aes256_encrypt(const std::uint32_t (&schedule)[kAesScheduleWords],
                                            std::uint32_t (&block)[kAesBlockWords]) noexcept {
    for (int c = 0; c < 4; ++c) block[c] ^= schedule[c];
    for (int round = 1; round <= kAesRounds; ++round) {
        std::uint32_t planes[8] = {};
        for (int c = 0; c < 4; ++c) aes_slice(block[c], 4 * c, planes);
        aes_substitute(planes);
        aes_mix_block(planes, round < kAesRounds);
        for (int c = 0; c < 4; ++c) block[c] = aes_unslice(planes, 4 * c) ^ schedule[4 * round + c];
    }
}

}  // namespace tightdp::random
