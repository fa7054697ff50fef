// Unsigned integers of a fixed number of 64-bit words, with the operations that exact sampling needs.
#pragma once

#include <cstdint>

#include "../config.hpp"

namespace tightdp::exact {

__extension__ typedef unsigned __int128 Uint128;

// An unsigned integer, with the least significant word first. All operations are exact modulo 2^(64 words), and callers
// keep results below this number.
template <int words>
struct WideInt {
    std::uint64_t w[words] = {};

    WideInt() = default;
    explicit WideInt(std::uint64_t x) : w{x} {}

    friend bool operator>=(const WideInt& a, const WideInt& b) noexcept {
        for (int i = words; i-- > 0;)
            if (a.w[i] != b.w[i]) return a.w[i] > b.w[i];
        return true;
    }

    WideInt& operator-=(const WideInt& b) noexcept {
        std::uint64_t borrow = 0;
        for (int i = 0; i < words; ++i) {
            const Uint128 d = static_cast<Uint128>(w[i]) - b.w[i] - borrow;
            w[i] = static_cast<std::uint64_t>(d);
            borrow = static_cast<std::uint64_t>(d >> 64) & 1;
        }
        return *this;
    }
    friend WideInt operator-(WideInt a, const WideInt& b) noexcept { return a -= b; }

    friend WideInt operator*(const WideInt& a, const WideInt& b) noexcept {
        WideInt c;
        for (int i = 0; i < words; ++i) {
            std::uint64_t carry = 0;
            for (int j = 0; i + j < words; ++j) {
                const Uint128 t = static_cast<Uint128>(a.w[i]) * b.w[j] + c.w[i + j] + carry;
                c.w[i + j] = static_cast<std::uint64_t>(t);
                carry = static_cast<std::uint64_t>(t >> 64);
            }
        }
        return c;
    }

    friend WideInt operator<<(WideInt a, int one) noexcept {
        (void)one;  // the shift is always by 1
        for (int i = words; i-- > 1;) a.w[i] = a.w[i] << 1 | a.w[i - 1] >> 63;
        a.w[0] <<= 1;
        return a;
    }
};

// Returns a double close to an integer, with a relative error below 2^-51. Where this error could change a caller's
// result, the caller decides by exact arithmetic.
TIGHTDP_HD inline double approximate_exact_integer(Uint128 x) noexcept {
    return static_cast<double>(static_cast<std::uint64_t>(x >> 64)) * 0x1p64 +
           static_cast<double>(static_cast<std::uint64_t>(x));
}
template <int words>
double approximate_exact_integer(const WideInt<words>& x) noexcept {
    double y = 0;
    for (int i = words; i-- > 0;) y = y * 0x1p64 + static_cast<double>(x.w[i]);
    return y;
}

}  // namespace tightdp::exact
