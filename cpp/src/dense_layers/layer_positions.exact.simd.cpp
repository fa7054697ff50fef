// Rounds rows of floats to integers (docs/theory/exact-products.md, section 9).
#include "layer_positions.simd.hpp"

#include <type_traits>

#include "layer_vectors.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// Adding this number to a float of at most 2^22, and subtracting it again, rounds the float to the nearest integer.
constexpr float kNearestOfFloats = 0x1.8p23f;

// Tells whether a positive number is a power of two that is a normal float.
TIGHTDP_VINLINE bool is_layer_power_of_floats(double factor) {
    std::uint64_t bits;
    __builtin_memcpy(&bits, &factor, sizeof bits);
    return !(bits << 12) && factor >= 0x1p-126 && factor <= 0x1p127;
}

// Computes the products x[j] factor in floats, confines them to [-most, most], and rounds them to integers. The factor
// is a power of two, so a product is exact, with two exceptions. A product of magnitude below 2^-126 may be inexact,
// but its nearest integer is 0 in any case. A product that overflows is infinite, and is confined.
template <class Integer>
TIGHTDP_VINLINE void scale_layer_floats(const float* __restrict x, std::int64_t columns, float factor, float most,
                                        Integer* __restrict out) {
    for (std::int64_t j = 0; j < columns; ++j) {
        const float scaled = x[j] * factor, up = scaled > -most ? scaled : -most;
        out[j] = static_cast<Integer>(
            static_cast<std::int32_t>(((up < most ? up : most) + kNearestOfFloats) - kNearestOfFloats));
    }
}

template <class T, class Integer>
void scale_layer_positions(const ScaledRows<T, Integer>& r) {
    const double most = static_cast<double>(r.most);
    for (std::int64_t k = 0; k < r.rows; ++k) {
        const T* __restrict x = r.x + k * r.columns;
        Integer* __restrict out = r.out + k * r.columns;
        const double factor = r.factors[k];
        if (!(factor > 0)) {
            for (std::int64_t j = 0; j < r.columns; ++j) out[j] = 0;
            continue;
        }
        if constexpr (std::is_same_v<T, float>)
            if (is_layer_power_of_floats(factor)) {
                scale_layer_floats(x, r.columns, static_cast<float>(factor), static_cast<float>(most), out);
                continue;
            }
        for (std::int64_t j = 0; j < r.columns; ++j) {
            const double scaled = static_cast<double>(x[j]) * factor, up = scaled > -most ? scaled : -most;
            out[j] = static_cast<Integer>(static_cast<std::int32_t>(round_layer_number(up < most ? up : most)));
        }
    }
}

}  // namespace

ForBothTypes<PositionKernels> position_kernels() {
    return {{&scale_layer_positions<float, std::int16_t>, &scale_layer_positions<float, std::int32_t>},
            {&scale_layer_positions<double, std::int16_t>, &scale_layer_positions<double, std::int32_t>}};
}

}  // namespace tightdp::TIGHTDP_ISA
