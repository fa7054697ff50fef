// Exact coins: Bernoulli(a/c) and Bernoulli(exp(-a/c)) from random bits and integer arithmetic alone.
// Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), algorithm 1;
// docs/theory/noise.md, section 4.
//
// Words is a source with next64() (64 uniform bits) and next_bit(). Int is an unsigned integer type wide
// enough for twice every product formed: 2 c k with k the number of rounds, which is geometric.
#pragma once

#include "wide_int.hpp"

namespace tightdp::exact {

// U < a/c, bit by bit: U is uniform on [0, 1) and `bits` its first 64 binary digits.
template <class Int, class Words>
bool below_ratio_exactly(std::uint64_t bits, Int a, const Int& c, Words& words) {
    // The digits of a/c by long division; the first that differs from U's decides.
    for (int i = 0;; ++i) {
        const bool digit_u = i < 64 ? (bits >> (63 - i) & 1) != 0 : words.next_bit();
        a = a << 1;
        const bool digit = a >= c;
        if (digit) a = a - c;
        if (digit != digit_u) return digit;
    }
}

// True with probability min(1, a/c) exactly. c > 0.
template <class Int, class Words>
bool bernoulli(const Int& a, const Int& c, Words& words) {
    if (a >= c) return true;
    const std::uint64_t bits = words.next64();
    // A guess that is wrong by less than 2^-48 decides for any U further than 2^-40 away.
    const double gap = static_cast<double>(bits) * 0x1p-64 - approximate(a) / approximate(c);
    if (gap > 0x1p-40) return false;
    if (gap < -0x1p-40) return true;
    return below_ratio_exactly(bits, a, c, words);
}

// True with probability exp(-a/c) exactly, for a <= c: the number of successes of coins a/c, a/2c, a/3c, ...
// before the first failure is even with that probability (the alternating series of the exponential).
template <class Int, class Words>
bool bernoulli_exp_small(const Int& a, const Int& c, Words& words) {
    Int denominator = c;
    bool even = true;
    for (std::uint64_t k = 1; bernoulli(a, denominator, words); even = !even) {
        ++k;
        denominator = c * Int(k);
    }
    return even;
}

// True with probability exp(-1) exactly.
template <class Words>
bool bernoulli_exp_one(Words& words) {
    return bernoulli_exp_small(Uint128{1}, Uint128{1}, words);
}

// True with probability exp(-a/c) exactly, any a >= 0: each whole unit of the exponent is a coin of its own.
template <class Int, class Words>
bool bernoulli_exp(Int a, const Int& c, Words& words) {
    while (a >= c) {
        if (!bernoulli_exp_one(words)) return false;
        a = a - c;
    }
    return bernoulli_exp_small(a, c, words);
}

// Uniform on {0, ..., n - 1}, n > 0 (Lemire 2019: the high half of a product, rejecting the few values that
// would make some results likelier than others).
template <class Words>
std::uint64_t uniform_below(std::uint64_t n, Words& words) {
    const std::uint64_t reject = (0 - n) % n;
    for (;;) {
        const Uint128 product = static_cast<Uint128>(words.next64()) * n;
        if (static_cast<std::uint64_t>(product) >= reject) return static_cast<std::uint64_t>(product >> 64);
    }
}

}  // namespace tightdp::exact
