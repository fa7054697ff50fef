// Vector functions that the loops of dense layers share. Only .simd.cpp files include this header.
#pragma once

#include <cstdint>

#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {

inline constexpr int kRegisterBytes = 8 * kLanes;
template <class T>
struct RegisterOf;  // GCC ignores the size of a vector whose type depends on a template
template <>
struct RegisterOf<float> {
    using type = float __attribute__((vector_size(kRegisterBytes)));
};
template <>
struct RegisterOf<double> {
    using type = double __attribute__((vector_size(kRegisterBytes)));
};
template <class T>
using Register = typename RegisterOf<T>::type;

template <class T>
TIGHTDP_VINLINE Register<T> load_layer_register(const T* p) {
    Register<T> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

// Rows with |x|^2 above kLargestSquare contribute nothing, and rows with |x|^2 below kLeastSquare count as zeros.
// Between the two limits, squares that underflow do not change |x|^2, and all powers of two in the computations are
// normal doubles.
inline constexpr double kLeastSquare = 0x1p-800, kLargestSquare = 0x1p800;

// Adding 1.5 * 2^52 to x and subtracting it again rounds x to the nearest integer, with ties to even, if |x| < 2^51.
inline constexpr double kNearest = 6755399441055744.0;
TIGHTDP_VINLINE double round_layer_number(double x) {
    return (x + kNearest) - kNearest;
}

// Returns the largest power of two that is at most x, for a finite x > 0. Returns 0 if x is subnormal.
TIGHTDP_VINLINE double layer_power_below(double x) {
    return __builtin_bit_cast(double, __builtin_bit_cast(std::int64_t, x) & 0x7ff0000000000000LL);
}

// Computes q[j] = round(x[j] rounding_factor). `rounding_factor` is a power of two, so the product x[j] rounding_factor
// is either exact or so small that it rounds to 0. If the rounding factor is 0, the row may have entries that are not
// finite, and all q[j] are 0.
template <class T>
TIGHTDP_VINLINE void round_layer_row(const T* __restrict x, std::int64_t columns, double rounding_factor,
                                     double* __restrict q) {
    if (rounding_factor > 0)
        for (std::int64_t j = 0; j < columns; ++j)
            q[j] = round_layer_number(static_cast<double>(x[j]) * rounding_factor);
    else
        for (std::int64_t j = 0; j < columns; ++j) q[j] = 0;
}

}  // namespace tightdp::TIGHTDP_ISA
