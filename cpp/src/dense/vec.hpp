// Vector functions that the loops of dense layers share. Only .simd.cpp files include this.
#pragma once

#include <cstdint>

#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {

inline constexpr int kRegisterBytes = 8 * kLanes;
template <class T>
struct RegisterOf;  // GCC ignores a vector's size where its type depends on a template
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
TIGHTDP_VINLINE Register<T> load_register(const T* p) {
    Register<T> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

// Rows whose |x|^2 is larger contribute nothing, smaller ones count as zeros: between, no square that matters has
// underflowed, and no power of two in what follows leaves the doubles.
inline constexpr double kLeastSquare = 0x1p-800, kLargestSquare = 0x1p800;

// Adding and taking away 1.5 * 2^52 rounds to the nearest integer, ties to even, for |x| < 2^51.
inline constexpr double kNearest = 6755399441055744.0;
TIGHTDP_VINLINE double nearest(double x) {
    return (x + kNearest) - kNearest;
}

// The power of two at or below a finite x > 0; 0 for what is subnormal.
TIGHTDP_VINLINE double power_below(double x) {
    return __builtin_bit_cast(double, __builtin_bit_cast(std::int64_t, x) & 0x7ff0000000000000LL);
}

// `step` is a power of two, so that the product is exact, or so small that it rounds to 0; a row whose step is 0 may
// hold what is not finite, and becomes zeros.
template <class T>
TIGHTDP_VINLINE void quantize(const T* __restrict x, std::int64_t columns, double step, double* __restrict q) {
    if (step > 0)
        for (std::int64_t j = 0; j < columns; ++j) q[j] = nearest(static_cast<double>(x[j]) * step);
    else
        for (std::int64_t j = 0; j < columns; ++j) q[j] = 0;
}

}  // namespace tightdp::TIGHTDP_ISA
