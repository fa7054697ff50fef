// Rounded normals by another method than the library's, to compare with: floor(s + sigma Z + 1/2) for an
// integer s.
//
// Z is sampled as Karney does ("Sampling exactly from the normal distribution", ACM TOMS 42, 2016, algorithm
// N): an integer part, and a fraction whose binary digits are drawn as far as a decision needs them. So the
// result is that of real arithmetic, and releasing it is post-processing of the Gaussian mechanism on real
// numbers. docs/theory/noise.md, section 5.
#pragma once

#include <vector>

#include "tightdp/exact/wide_int.hpp"

namespace tightdp::exact {

// A uniform real in (0, 1), as many of whose digits are known as were asked for, 64 at a time.
class Deviate {
  public:
    template <class Words>
    explicit Deviate(Words& words) : first_(words.next64()) {}

    template <class Words>
    std::uint64_t digits(std::size_t i, Words& words) {
        if (i == 0) return first_;
        while (more_.size() < i) more_.push_back(words.next64());
        return more_[i - 1];
    }

    template <class Words>
    static bool less(Deviate& a, Deviate& b, Words& words) {
        for (std::size_t i = 0;; ++i) {
            const std::uint64_t x = a.digits(i, words), y = b.digits(i, words);
            if (x != y) return x < y;
        }
    }

  private:
    std::uint64_t first_;
    std::vector<std::uint64_t> more_;  // empty but once in 2^60 draws
};

// True with probability exp(-1/2): a run of decreasing uniforms that starts below 1/2 has even length (von
// Neumann).
template <class Words>
bool bernoulli_exp_half(Words& words) {
    Deviate last(words);
    if (last.digits(0, words) >> 63) return true;
    for (bool even = false;; even = !even) {
        Deviate next(words);
        if (!Deviate::less(next, last, words)) return even;
        last = std::move(next);
    }
}

// r < (2k + x) / (2k + 2) for a fresh uniform r: with probability 2k/(2k+2) outright, with 1/(2k+2) not, else
// r' < x.
template <class Words>
bool below_slope(unsigned k, Deviate& x, Words& words) {
    const std::uint64_t n = 2 * static_cast<std::uint64_t>(k) + 2;
    const std::uint64_t reject = (0 - n) % n;
    for (;;) {
        const Uint128 product = static_cast<Uint128>(words.next64()) * n;
        if (static_cast<std::uint64_t>(product) < reject) continue;
        const auto c = static_cast<std::uint64_t>(product >> 64);
        if (c < n - 2) return true;
        if (c == n - 2) return false;
        Deviate r(words);
        return Deviate::less(r, x, words);
    }
}

// True with probability exp(-x (2k + x) / (2k + 2)).
template <class Words>
bool bernoulli_exp_slope(unsigned k, Deviate& x, Words& words) {
    Deviate first(words);
    if (!Deviate::less(first, x, words) || !below_slope(k, x, words)) return true;
    Deviate last = std::move(first);
    for (bool even = false;; even = !even) {
        Deviate next(words);
        if (!Deviate::less(next, last, words) || !below_slope(k, x, words)) return even;
        last = std::move(next);
    }
}

// sigma = numerator / 2^shift with 1 <= numerator < 2^62, 0 <= shift <= 63 and sigma <= 2^40.
struct RoundedNormalParameters {
    std::uint64_t numerator;
    int shift;
};

// floor(v / 2^shift + 1/2) for v = whole + fraction, the top half of whose digits starts at `half`.
inline Uint128 round_shifted(Uint128 whole, bool half, int shift) noexcept {
    return shift > 0 ? (whole + (static_cast<Uint128>(1) << (shift - 1))) >> shift : whole + (half ? 1 : 0);
}

// |floor(+-sigma (k + x) + 1/2)|: as many digits of x as settle it. A tie, where the sign would matter, has
// probability 0.
template <class Words>
Uint128 rounded_product(const RoundedNormalParameters& p, unsigned k, Deviate& x, Words& words) {
    // sigma (k + x) 2^shift = a k + a x, a the numerator. With m words of digits known, a x lies in
    // [product, product + a 2^-64m): settled once both ends round alike.
    const Uint128 base = static_cast<Uint128>(p.numerator) * k;
    const auto rounded = [&](std::uint64_t whole, std::uint64_t fraction) {
        return round_shifted(base + whole, fraction >> 63 != 0, p.shift);
    };
    const Uint128 first = static_cast<Uint128>(p.numerator) * x.digits(0, words), end = first + p.numerator;
    const Uint128 low = rounded(static_cast<std::uint64_t>(first >> 64), static_cast<std::uint64_t>(first));
    if (low == rounded(static_cast<std::uint64_t>(end >> 64), static_cast<std::uint64_t>(end))) return low;
    for (std::size_t m = 2;; ++m) {
        std::vector<std::uint64_t> product(m + 1);  // least significant first
        std::uint64_t carry = 0;
        for (std::size_t i = m; i-- > 0;) {
            const Uint128 t = static_cast<Uint128>(p.numerator) * x.digits(i, words) + carry;
            product[m - 1 - i] = static_cast<std::uint64_t>(t);
            carry = static_cast<std::uint64_t>(t >> 64);
        }
        product[m] = carry;
        const Uint128 lower = rounded(product[m], product[m - 1]);
        std::uint64_t add = p.numerator;
        for (std::size_t i = 0; i <= m && add; ++i) {
            const Uint128 t = static_cast<Uint128>(product[i]) + add;
            product[i] = static_cast<std::uint64_t>(t);
            add = static_cast<std::uint64_t>(t >> 64);
        }
        if (lower == rounded(product[m], product[m - 1])) return lower;
    }
}

template <class Words>
std::int64_t rounded_normal(const RoundedNormalParameters& p, Words& words) {
    for (;;) {
        unsigned k = 0;
        while (bernoulli_exp_half(words)) ++k;
        bool accepted = true;
        for (unsigned i = 0; accepted && i < k * (k - 1); ++i) accepted = bernoulli_exp_half(words);
        if (!accepted) continue;
        Deviate x(words);
        for (unsigned i = 0; accepted && i <= k; ++i) accepted = bernoulli_exp_slope(k, x, words);
        if (!accepted) continue;
        const auto n = static_cast<std::int64_t>(rounded_product(p, k, x, words));
        return words.next_bit() ? -n : n;
    }
}

}  // namespace tightdp::exact
