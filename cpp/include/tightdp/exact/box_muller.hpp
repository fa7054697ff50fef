// Exact rounding of normal draws: floor(sigma Z + 1/2), where Z = sqrt(-2 ln x) cos 2 pi y or sqrt(-2 ln x) sin 2 pi y.
// The real numbers x and y in [0, 1] are given by their binary digits, of which 64, 128, 192, ... are used until they
// determine the result.
//
// The code computes two intervals of fixed-point numbers. For all x and y with the given digits, one interval contains
// -2 ln x, and the other contains |cos 2 pi y| or |sin 2 pi y|. The rounded integer is computed from the two lower
// ends, and again from the two upper ends. If the integers agree, the digits determine the result. The errors are
// derived in docs/theory/noise.md, section 5.4. A "limb" is a digit of 32 bits (fixed_point.hpp). In each function, n
// is the number of limbs of a fraction, and `work` is scratch memory.
#pragma once

#include <math.h>
#include <stdlib.h>

#include "fixed_point.hpp"
#include "wide_int.hpp"

namespace tightdp::exact {

// Computes artanh s, the sum over k >= 0 of s^(2k+1) / (2k+1), for 0 <= s <= 1/5. If `alternating`, the signs of the
// terms alternate, and the sum is arctan s. `work` has 5 n + 5 limbs.
TIGHTDP_HD_STAGE inline void sum_exact_odd_series(int n, const Limb* s, bool alternating, Limb* sum,
                                                  Limb* work) noexcept {
    Limb *const square = work, *const power = square + n + 1, *const term = power + n + 1,
                *const scratch = term + n + 1;
    multiply_fixed_point(n, s, s, square, scratch);
    copy_fixed_point(n, s, power);
    copy_fixed_point(n, s, sum);
    for (Limb k = 3; k <= 14 * static_cast<Limb>(n); k += 2) {  // (1/5)^(14 n) < 2^-32n
        multiply_fixed_point(n, power, square, power, scratch);
        copy_fixed_point(n, power, term);
        divide_fixed_point(n, k, term);
        if (alternating && (k & 2))
            subtract_fixed_point(n, term, sum);
        else
            add_fixed_point(n, term, sum);
    }
}

// Computes out = factor artanh(1/q), or factor arctan(1/q) if `alternating`.
TIGHTDP_HD inline void sum_exact_inverse_series(int n, Limb factor, Limb q, bool alternating, Limb* out,
                                                Limb* work) noexcept {
    Limb* const s = work;
    set_fixed_point(n, 1, s);
    divide_fixed_point(n, q, s);
    sum_exact_odd_series(n, s, alternating, out, work + n + 1);
    set_fixed_point(n, factor, s);
    multiply_fixed_point(n, s, out, out, work + n + 1);
}

// The constant p artanh(1/a) + q artanh(1/b), or p arctan(1/a) - q arctan(1/b) if `arctan`. Its integer part and
// kStoredLimbs limbs of its fraction are stored, the most significant first. The stored limbs suffice for the first 128
// digits of x and y.
inline constexpr int kStoredLimbs = 5;
struct Constant {
    Limb integer, digits[kStoredLimbs];
    Limb p, a, q, b;
    bool arctan;
};

// Writes a constant with n limbs of fraction. Digits that are not stored are computed, about once in 2^60 draws. `work`
// has 7 n + 7 limbs.
TIGHTDP_HD_STAGE inline void evaluate_exact_constant(int n, const Constant& c, Limb* out, Limb* work) noexcept {
    if (n <= kStoredLimbs) {
        out[n] = c.integer;
        for (int i = 0; i < n; ++i) out[n - 1 - i] = c.digits[i];
        return;
    }
    sum_exact_inverse_series(n, c.p, c.a, c.arctan, out, work);
    sum_exact_inverse_series(n, c.q, c.b, c.arctan, work, work + n + 1);
    c.arctan ? subtract_fixed_point(n, work, out) : add_fixed_point(n, work, out);
}

// Returns ln 2 = 2 ln(4/3) + ln(9/8) = 4 artanh(1/7) + 2 artanh(1/17).
TIGHTDP_HD inline Constant exact_log_two() noexcept {
    return {0, {0xb17217f7u, 0xd1cf79abu, 0xc9e3b398u, 0x03f2f6afu, 0x40f34326u}, 4, 7, 2, 17, false};
}

// Returns 2 pi = 32 arctan(1/5) - 8 arctan(1/239) (Machin's formula).
TIGHTDP_HD inline Constant exact_two_pi() noexcept {
    return {6, {0x487ed511u, 0x0b4611a6u, 0x2633145cu, 0x06e0e689u, 0x48127044u}, 32, 5, 8, 239, true};
}

// Computes the sine of theta in [0, 1] if `sine`, and otherwise the cosine. `work` has 4 n + 4 limbs.
TIGHTDP_HD_STAGE inline void exact_sine_or_cosine(int n, const Limb* theta, bool sine, Limb* sum, Limb* work) noexcept {
    Limb *const square = work, *const term = square + n + 1, *const scratch = term + n + 1;
    multiply_fixed_point(n, theta, theta, square, scratch);
    if (sine)
        copy_fixed_point(n, theta, sum);
    else
        set_fixed_point(n, 1, sum);
    copy_fixed_point(n, sum, term);
    bool minus = true;
    for (Limb k = sine ? 2 : 1; k <= 8 * static_cast<Limb>(n) + 4; k += 2, minus = !minus) {  // (8 n + 4)! > 2^32n
        multiply_fixed_point(n, term, square, term, scratch);
        divide_fixed_point(n, k * (k + 1), term);
        if (minus)
            subtract_fixed_point(n, term, sum);
        else
            add_fixed_point(n, term, sum);
    }
}

// An interval of fixed-point numbers.
struct Enclosure {
    Limb *low, *high;
};

// Makes an interval from the value in `low`: subtracts and adds 4096 n^2 units of 2^-32n, more than the error of the
// value.
TIGHTDP_HD inline void widen_exact_enclosure(int n, const Enclosure& e, Limb* work) noexcept {
    const std::uint64_t slack = 4096u * static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(n);
    copy_fixed_point(n, e.low, e.high);
    add_fixed_point_limb(n, slack, 0, e.high);
    set_fixed_point(n, 0, work);
    add_fixed_point_limb(n, slack, 0, work);
    subtract_fixed_point(n, work, e.low);
}

// Encloses -2 ln of all numbers in [x, x + 2^-digits], where x > 0 has `digits` binary digits. x is overwritten. `work`
// has 9 n + 9 limbs.
TIGHTDP_HD_STAGE inline void enclose_box_muller_radius_squared(int n, int digits, Limb* x, const Enclosure& out,
                                                               Limb* work) noexcept {
    Limb *const t = work, *const s = t + n + 1, *const rest = s + n + 1;
    // x is written as 2^-k mu with mu in [1, 2).
    const int k = normalize_fixed_point(n, x);
    // ln mu is 2 artanh((mu - 1)/(mu + 1)), or ln 2 - 2 artanh((2 - mu)/(2 + mu)) if mu is at least about sqrt 2.
    const bool upper = x[n - 1] >= 0x6a09e668u;
    if (upper) {
        set_fixed_point(n, 2, t);
        subtract_fixed_point(n, x, t);
        add_fixed_point_limb(n, 2, n, x);
    } else {
        copy_fixed_point(n, x, t);
        t[n] -= 1;
        add_fixed_point_limb(n, 1, n, x);
    }
    divide_fixed_point(n, t, x, s);
    sum_exact_odd_series(n, s, false, t, rest);
    double_fixed_point(n, t);
    evaluate_exact_constant(n, exact_log_two(), s, rest);
    set_fixed_point(n, static_cast<Limb>(upper ? k - 1 : k), out.high);
    multiply_fixed_point(n, s, out.high, out.low, rest);
    if (upper)
        add_fixed_point(n, t, out.low);
    else
        subtract_fixed_point(n, t, out.low);
    widen_exact_enclosure(n, out, t);
    // -ln falls by at most 2^-digits / x <= 2^(k - digits) between x and x + 2^-digits.
    const int bit = 32 * n - digits + k;
    set_fixed_point(n, 0, t);
    t[bit / 32] = Limb{1} << bit % 32;
    subtract_fixed_point(n, t, out.low);
    double_fixed_point(n, out.low);
    double_fixed_point(n, out.high);
}

// Encloses sin 2 pi t or cos 2 pi t for all numbers in [t, t + 2^-digits], where t is in [0, 1/8). `work` has 8 n + 8
// limbs.
TIGHTDP_HD_STAGE inline void enclose_box_muller_turn(int n, int digits, const Limb* t, bool sine, const Enclosure& out,
                                                     Limb* work) noexcept {
    Limb *const theta = work, *const rest = work + n + 1;
    evaluate_exact_constant(n, exact_two_pi(), theta, rest);
    multiply_fixed_point(n, theta, t, theta, rest);
    exact_sine_or_cosine(n, theta, sine, out.low, rest);
    widen_exact_enclosure(n, out, theta);
    // The sine and the cosine change by at most 2 pi 2^-digits, which is less than 7 2^-digits.
    const int limb = n - digits / 32;
    add_fixed_point_limb(n, 7, limb, out.high);
    set_fixed_point(n, 0, theta);
    theta[limb] = 7;
    subtract_fixed_point(n, theta, out.low);
}

// Returns floor(sqrt(x)).
TIGHTDP_HD inline std::uint64_t box_muller_square_root(Uint128 x) noexcept {
    auto root = static_cast<std::uint64_t>(::sqrt(approximate_exact_integer(x)));
    while (static_cast<Uint128>(root) * root > x) --root;
    while (static_cast<Uint128>(root + 1) * (root + 1) <= x) ++root;
    return root;
}

// Returns floor(sigma sqrt(l) a + 1/2), where products are rounded up if `up` and down otherwise. Here l is an end of
// the interval of -2 ln x, and a is an end of the other interval. sigma is at most 2^39. `work` has 4 n + 16 limbs.
TIGHTDP_HD_STAGE inline std::uint64_t round_box_muller_product(int n, double sigma, const Limb* l, const Limb* a,
                                                               bool up, Limb* work) noexcept {
    Limb *const p = work, *const scratch = work + n + 5;
    multiply_fixed_point(n, l, a, p, scratch);
    add_fixed_point_limb(n, up, 0, p);
    multiply_fixed_point(n, p, a, p, scratch);
    add_fixed_point_limb(n, up, 0, p);
    // Sigma is m 2^e, so (2 sigma)^2 l a^2 = m^2 p 2^(2e + 2 - 32n). Only the integer part of this number matters.
    std::uint64_t bits;
    __builtin_memcpy(&bits, &sigma, sizeof bits);
    const int exponent = static_cast<int>(bits >> 52);
    const std::uint64_t mantissa = (bits & 0xfffffffffffffu) | (exponent ? std::uint64_t{1} << 52 : 0);
    const Limb m[2] = {static_cast<Limb>(mantissa), static_cast<Limb>(mantissa >> 32)};
    multiply_fixed_point_limbs(p, n + 1, m, 2, scratch);
    multiply_fixed_point_limbs(scratch, n + 3, m, 2, p);
    const int shift = 32 * n - 2 - 2 * ((exponent ? exponent : 1) - 1075);
    Uint128 square = 0;
    for (int i = 4; i >= 0; --i) {
        const int limb = shift / 32 + i;
        const Uint128 digits = limb < n + 5 ? p[limb] : 0;
        // Two shifts are used, because a shift by all 128 binary digits would be undefined.
        square |= i == 0 ? digits >> shift % 32 : digits << (32 * i - 32) << (32 - shift % 32);
    }
    // The result is floor(v + 1/2) = floor((floor(2 v) + 1) / 2) with v = sigma sqrt(l) a.
    return (box_muller_square_root(square) + 1) / 2;
}

// Returns the number of limbs of scratch memory that try_exact_box_muller needs for `words` words.
TIGHTDP_HD constexpr int count_box_muller_limbs(int words) noexcept {
    return 15 * (2 * words + 2);
}

// Tells whether the first `words` words of 64 binary digits determine the rounded integer, and computes it if they do.
// word(j, of_x, of_y) writes the j-th words of the numbers x and y to its last two arguments.
template <class Words>
TIGHTDP_HD inline bool try_exact_box_muller(double sigma, bool sine, int words, const Words& word, Limb* work,
                                            std::int64_t& rounded) noexcept {
    const int n = 2 * words + 1, digits = 64 * words;
    Limb *const x = work, *const t = x + n + 1, *const rest = work + 6 * (n + 1);
    const Enclosure l{t + n + 1, t + 2 * (n + 1)}, a{t + 3 * (n + 1), t + 4 * (n + 1)};
    x[n] = t[n] = x[0] = t[0] = 0;
    for (int j = 0; j < words; ++j) {
        std::uint64_t of_x, of_y;
        word(j, of_x, of_y);
        for (int half = 0; half < 2; ++half) {
            x[n - 1 - 2 * j - half] = static_cast<Limb>(of_x >> (32 - 32 * half));
            t[n - 1 - 2 * j - half] = static_cast<Limb>(of_y >> (32 - 32 * half));
        }
    }
    if (is_fixed_point_zero(n, x)) return false;  // x may be arbitrarily small, so -ln x has no upper bound yet
    // y = octant/8 + t if the octant is even, and y = (octant + 1)/8 - t - 2^-digits if it is odd. The digits of t are
    // the digits of y or, if the octant is odd, their complements.
    const Limb octant = t[n - 1] >> 29;
    if (octant & 1)
        for (int i = 1; i < n; ++i) t[i] = ~t[i];
    t[n - 1] &= 0x1fffffffu;
    const bool same = ((octant + 1) & 2) == 0;  // whether |cos 2 pi y| is cos 2 pi t, and not sin 2 pi t
    enclose_box_muller_radius_squared(n, digits, x, l, rest);
    enclose_box_muller_turn(n, digits, t, sine == same, a, rest);
    const std::uint64_t low = round_box_muller_product(n, sigma, l.low, a.low, false, rest);
    if (low != round_box_muller_product(n, sigma, l.high, a.high, true, rest)) return false;
    const bool negative = sine ? octant >= 4 : ((octant + 2) & 4) != 0;
    rounded = negative ? -static_cast<std::int64_t>(low) : static_cast<std::int64_t>(low);
    return true;
}

// Returns the rounded integer, from as many words as determine it. Memory is allocated only for more than two words,
// which are rarely needed.
template <class Words>
TIGHTDP_HD_STAGE inline std::int64_t round_box_muller_exactly(double sigma, bool sine, const Words& word) noexcept {
    constexpr int kOnStack = 2;
    Limb stack[count_box_muller_limbs(kOnStack)];
    std::int64_t rounded = 0;
    for (int words = 1;; ++words) {
        if (words <= kOnStack) {
            if (try_exact_box_muller(sigma, sine, words, word, stack, rounded)) return rounded;
            continue;
        }
        Limb* const work =
            static_cast<Limb*>(::malloc(sizeof(Limb) * static_cast<unsigned>(count_box_muller_limbs(words))));
        if (!work) TIGHTDP_TRAP();
        const bool settled = try_exact_box_muller(sigma, sine, words, word, work, rounded);
        ::free(work);
        if (settled) return rounded;
    }
}

}  // namespace tightdp::exact
