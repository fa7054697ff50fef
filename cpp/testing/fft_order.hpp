// Which frequency each coefficient of RealFft's spectrum has: its passes (fft/passes.simd.cpp) retraced.
#pragma once

#include <bit>
#include <cstddef>

#include "fft/real_fft.simd.hpp"

namespace tightdp {

// Bin of the coefficient at position p of a complex transform of length m.
inline std::size_t bin(std::size_t p, std::size_t m) {
    std::size_t result = 0, stride = 1, size = m;
    if (m <= 32) {
        for (; size > 1; size /= 2, stride *= 2)
            if (p % size >= size / 2) result += stride;
        return result;
    }
    const std::size_t lanes = TIGHTDP_SELECT_SIMD(fft_lanes)(), block = 8 * lanes;
    const std::size_t column = p % block / lanes;
    p = p - p % block + p % lanes * 8;  // the row that the register block held before its transposition
    for (; size > 16; size /= 4, stride *= 4) {
        constexpr std::size_t kOrder[] = {0, 2, 1, static_cast<std::size_t>(-1)};
        result += stride * kOrder[p % size / (size / 4)];
    }
    if (size == 16) {
        result += stride * (p % 16 / 8);
        stride *= 2;
    }
    constexpr std::size_t kOrder8[] = {0, 4, 2, 6, 1, 5, 3, 7};
    return (result + stride * kOrder8[column]) % m;
}

// Frequency in [0, n) of the coefficient whose real part is spectrum[i] (the imaginary part is m/4 further).
// Precondition: i is 0, 1 or in [m/2, 3m/4) for one of the levels m.
inline std::size_t frequency(std::size_t n, std::size_t i) {
    if (i < 2) return i * (n / 2);
    const std::size_t m = 2 * std::bit_floor(i);
    return (n / m) * (1 + 4 * bin(i - m / 2, m / 4)) % n;
}

}  // namespace tightdp
