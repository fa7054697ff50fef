// Rounds the entries of rows to integers, for the files that pack these integers. Only .simd.cpp files include this
// header.
#pragma once

#include <type_traits>

#include "layer_vectors.hpp"
#include "product_way.hpp"

namespace tightdp::TIGHTDP_ISA {

// Computes the integers of `width` columns of row k, from column j on. The integers are zeros beyond the last column or
// row. They are also zeros if the row's rounding factor (InputBlock) is 0, since such a row may have entries that are
// not finite.
template <int width, class T>
TIGHTDP_VINLINE void round_packed_row(const InputBlock<T>& b, std::int64_t k, std::int64_t j,
                                      std::int32_t* __restrict out) {
    [[maybe_unused]] constexpr double most = kLargestEntry;
    const auto integer = [](T x, [[maybe_unused]] double rounding_factor) {
        if constexpr (std::is_same_v<T, std::int16_t>) {
            constexpr T largest = kLargestEntry;
            const T up = x > -largest ? x : static_cast<T>(-largest);
            return std::int32_t{up < largest ? up : largest};
        } else {
            const double q = round_layer_number(static_cast<double>(x) * rounding_factor);
            const double up = q > -most ? q : -most;
            return static_cast<std::int32_t>(up < most ? up : most);
        }
    };
    const double rounding_factor = k >= b.count ? 0.0 : b.rounding_factors ? b.rounding_factors[k] : 1.0;
    const T* const x = b.x + k * b.stride + j;
    if (rounding_factor > 0 && b.columns - j >= width) {
        for (int i = 0; i < width; ++i) out[i] = integer(x[i], rounding_factor);
        return;
    }
    const std::int64_t count = rounding_factor > 0 ? b.columns - j : 0;
    for (int i = 0; i < width; ++i) out[i] = i < count ? integer(x[i], rounding_factor) : 0;
}

TIGHTDP_VINLINE std::int32_t confine_packed_weight(double w) {
    constexpr double most = kLargestWeight;
    const double up = w > -most ? w : -most;
    return static_cast<std::int32_t>(up < most ? up : most);
}

// Returns the lowest signed digit of x in base 2^8, a number in [-2^7, 2^7). The function without_low_digit returns x
// minus this digit, divided by 2^8.
TIGHTDP_VINLINE std::int32_t low_digit(std::int32_t x) {
    return ((x + 128) & 255) - 128;
}
TIGHTDP_VINLINE std::int32_t without_low_digit(std::int32_t x) {
    return (x - low_digit(x)) >> 8;
}

// Prefetches the totals of a tile while its products are computed. The totals are far apart in memory, and loading them
// takes longer than adding to them.
TIGHTDP_VINLINE void prefetch_product_totals(const PackedProduct& p, std::int64_t o, std::int64_t j,
                                             std::int64_t outputs, std::int64_t columns) {
    for (std::int64_t i = 0; i < outputs && o + i < p.outputs; ++i)
        for (std::int64_t c = 0; c < columns && j + c < p.columns; c += 8)
            __builtin_prefetch(p.sums + (o + i) * p.stride + j + c, 1);
}

}  // namespace tightdp::TIGHTDP_ISA
