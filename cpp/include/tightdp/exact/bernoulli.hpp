// Exact draws from Bernoulli(a/c) and Bernoulli(exp(-a/c)), which use only random bits and integer arithmetic. The
// algorithm is number 1 of Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020). The
// proof is in docs/theory/noise.md, section 4.
//
// The type Words is a source of random bits with the methods draw_random_word(), for 64 uniform bits, and
// draw_random_bit(). Int is an unsigned integer type that can hold 2 c k, where k is the number of rounds of
// bernoulli_exp_small. k is random and has no upper limit, but it exceeds j with a probability of at most 1/j!.
// So Int needs only some spare bits.
#pragma once

#include "wide_int.hpp"

namespace tightdp::exact {

// Tells whether U < a/c, where U is uniform on [0, 1) and `bits` are its first 64 binary digits. Further digits are
// drawn as needed.
template <class Int, class Words>
bool is_exact_bernoulli_success(std::uint64_t bits, Int a, const Int& c, Words& words) {
    // Computes the digits of a/c by long division. The first digit that differs from the digit of U decides.
    for (int i = 0;; ++i) {
        const bool digit_u = i < 64 ? (bits >> (63 - i) & 1) != 0 : words.draw_random_bit();
        a = a << 1;
        const bool digit = a >= c;
        if (digit) a = a - c;
        if (digit != digit_u) return digit;
    }
}

// Returns true with the exact probability min(1, a/c), where c > 0.
template <class Int, class Words>
bool bernoulli(const Int& a, const Int& c, Words& words) {
    if (a >= c) return true;
    const std::uint64_t bits = words.draw_random_word();
    // The quotient of doubles has an error below 2^-48, and decides the comparison if its distance from U exceeds
    // 2^-40.
    const double gap =
        static_cast<double>(bits) * 0x1p-64 - approximate_exact_integer(a) / approximate_exact_integer(c);
    if (gap > 0x1p-40) return false;
    if (gap < -0x1p-40) return true;
    return is_exact_bernoulli_success(bits, a, c, words);
}

// Returns true with the exact probability exp(-a/c), for a <= c. The function draws from Bernoulli(a/c),
// Bernoulli(a/2c), Bernoulli(a/3c), ... until the first failure. The number of successes is even with probability
// exp(-a/c), by the alternating series of the exponential function.
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

// Returns true with the exact probability exp(-1).
template <class Words>
bool bernoulli_exp_one(Words& words) {
    return bernoulli_exp_small(Uint128{1}, Uint128{1}, words);
}

// Returns true with the exact probability exp(-a/c), for any a >= 0. This probability is a product of factors exp(-1)
// and one factor exp(-a'/c) with a' < c. The function makes one Bernoulli draw for each factor.
template <class Int, class Words>
bool bernoulli_exp(Int a, const Int& c, Words& words) {
    while (a >= c) {
        if (!bernoulli_exp_one(words)) return false;
        a = a - c;
    }
    return bernoulli_exp_small(a, c, words);
}

// Returns a uniform integer from {0, ..., n - 1}, n > 0. The integer is the high half of a product (Lemire 2019). A few
// values of the low half are rejected, because they would make some results likelier than others.
template <class Words>
std::uint64_t uniform_below(std::uint64_t n, Words& words) {
    const std::uint64_t reject = (0 - n) % n;
    for (;;) {
        const Uint128 product = static_cast<Uint128>(words.draw_random_word()) * n;
        if (static_cast<std::uint64_t>(product) >= reject) return static_cast<std::uint64_t>(product >> 64);
    }
}

}  // namespace tightdp::exact
