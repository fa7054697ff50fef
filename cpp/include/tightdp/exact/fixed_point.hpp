// Non-negative fixed-point numbers of any precision, with the operations that exactly rounded normal draws need in rare
// cases (box_muller.hpp).
//
// A number of precision n is an array of n + 1 limbs of 32 bits, least significant first: n limbs of fraction and one
// limb of integer part. The value of the number is the sum of a[i] 2^(32 (i - n)). A unit is 2^-32n. Every operation
// rounds down by less than one unit, and callers keep results within [0, 2^32). The number of steps of most operations
// depends on n alone, so that their timing reveals nothing about the noise. The steps of is_fixed_point_zero,
// add_fixed_point_limb and subtract_fixed_point also depend on the numbers.
#pragma once

#include <cstdint>

#include "../config.hpp"

namespace tightdp::exact {

using Limb = std::uint32_t;

TIGHTDP_HD inline void set_fixed_point(int n, Limb integer, Limb* out) noexcept {
    for (int i = 0; i < n; ++i) out[i] = 0;
    out[n] = integer;
}

TIGHTDP_HD inline void copy_fixed_point(int n, const Limb* a, Limb* out) noexcept {
    for (int i = 0; i <= n; ++i) out[i] = a[i];
}

TIGHTDP_HD inline bool is_fixed_point_zero(int n, const Limb* a) noexcept {
    for (int i = 0; i <= n; ++i)
        if (a[i] != 0) return false;
    return true;
}

// Adds b 2^(32 at) units to a. `at` = n addresses the integer part.
TIGHTDP_HD inline void add_fixed_point_limb(int n, std::uint64_t b, int at, Limb* a) noexcept {
    for (int i = at; b != 0 && i <= n; ++i) {
        b += a[i];
        a[i] = static_cast<Limb>(b);
        b >>= 32;
    }
}

TIGHTDP_HD inline void add_fixed_point(int n, const Limb* b, Limb* a) noexcept {
    std::uint64_t carry = 0;
    for (int i = 0; i <= n; ++i) {
        carry += static_cast<std::uint64_t>(a[i]) + b[i];
        a[i] = static_cast<Limb>(carry);
        carry >>= 32;
    }
}

// Subtracts b from a if the difference is not negative. Returns whether b was subtracted.
TIGHTDP_HD_STAGE inline bool subtract_smaller_fixed_point(int n, const Limb* b, Limb* a) noexcept {
    std::uint64_t borrow = 0;
    for (int i = 0; i <= n; ++i) borrow = (static_cast<std::uint64_t>(a[i]) - b[i] - borrow) >> 63;
    const Limb mask = static_cast<Limb>(borrow) - 1;
    borrow = 0;
    for (int i = 0; i <= n; ++i) {
        const std::uint64_t d = static_cast<std::uint64_t>(a[i]) - (b[i] & mask) - borrow;
        a[i] = static_cast<Limb>(d);
        borrow = d >> 63;
    }
    return mask != 0;
}

// Sets a to max(a - b, 0).
TIGHTDP_HD inline void subtract_fixed_point(int n, const Limb* b, Limb* a) noexcept {
    if (!subtract_smaller_fixed_point(n, b, a)) set_fixed_point(n, 0, a);
}

TIGHTDP_HD inline void double_fixed_point(int n, Limb* a) noexcept {
    for (int i = n; i > 0; --i) a[i] = a[i] << 1 | a[i - 1] >> 31;
    a[0] <<= 1;
}

TIGHTDP_HD_STAGE inline void divide_fixed_point(int n, Limb divisor, Limb* a) noexcept {
    std::uint64_t rest = 0;
    for (int i = n; i >= 0; --i) {
        rest = rest << 32 | a[i];
        a[i] = static_cast<Limb>(rest / divisor);
        rest %= divisor;
    }
}

// Multiplies a by the power 2^k that moves it into [1, 2), and returns k. Precondition: 0 < a < 2.
TIGHTDP_HD_STAGE inline int normalize_fixed_point(int n, Limb* a) noexcept {
    int k = 0;
    for (int limb = 0; limb < n - 1; ++limb) {  // shifts by 32 bits while a < 2^-32
        const bool small = (a[n] | a[n - 1]) == 0;
        for (int i = n; i >= 0; --i) a[i] = small && i > 0 ? a[i - 1] : small ? 0 : a[i];
        k += small ? 32 : 0;
    }
    for (int bit = 0; bit < 32; ++bit) {
        const int up = a[n] == 0;
        for (int i = n; i > 0; --i) a[i] = a[i] << up | (a[i - 1] >> 31 & static_cast<Limb>(up));
        a[0] <<= up;
        k += up;
    }
    return k;
}

// Writes the exact product of a and b. `out` has na + nb limbs and overlaps neither factor.
TIGHTDP_HD_STAGE inline void multiply_fixed_point_limbs(const Limb* a, int na, const Limb* b, int nb,
                                                        Limb* out) noexcept {
    for (int i = 0; i < na + nb; ++i) out[i] = 0;
    for (int i = 0; i < na; ++i) {
        std::uint64_t carry = 0;
        for (int j = 0; j < nb; ++j) {
            carry += static_cast<std::uint64_t>(a[i]) * b[j] + out[i + j];
            out[i + j] = static_cast<Limb>(carry);
            carry >>= 32;
        }
        out[i + nb] = static_cast<Limb>(carry);
    }
}

// Writes the rounded product of a and b. `out` may be a or b. `scratch` has 2 n + 2 limbs.
TIGHTDP_HD inline void multiply_fixed_point(int n, const Limb* a, const Limb* b, Limb* out, Limb* scratch) noexcept {
    multiply_fixed_point_limbs(a, n + 1, b, n + 1, scratch);
    copy_fixed_point(n, scratch + n, out);
}

// Writes a / b for a < b < 2^31, digit by digit. `a` is overwritten.
TIGHTDP_HD_STAGE inline void divide_fixed_point(int n, Limb* a, const Limb* b, Limb* out) noexcept {
    out[n] = 0;
    for (int i = n - 1; i >= 0; --i) {
        Limb digits = 0;
        for (int bit = 0; bit < 32; ++bit) {
            double_fixed_point(n, a);
            digits = digits << 1 | subtract_smaller_fixed_point(n, b, a);
        }
        out[i] = digits;
    }
}

}  // namespace tightdp::exact
