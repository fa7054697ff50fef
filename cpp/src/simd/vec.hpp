// Vectors of doubles that fill one register of the instruction set TIGHTDP_ISA, for which the file is compiled.
//
// The type and its functions are in the namespace TIGHTDP_ISA, so that the copies for different instruction sets are
// different symbols. Only .simd.cpp files include this header.
#pragma once

#include <cstdint>

#if !defined(TIGHTDP_ISA)
#error "simd/vec.hpp is for .simd.cpp files, which are compiled once per instruction set"
#endif

namespace tightdp::TIGHTDP_ISA {

// Number of lanes in a register. The compiler would split a wider vector and keep it in memory, which takes three times
// as long.
#if defined(TIGHTDP_ISA_avx512)
inline constexpr int kLanes = 8;
#elif defined(TIGHTDP_ISA_avx2)
inline constexpr int kLanes = 4;
#else
inline constexpr int kLanes = 2;  // SSE2 and NEON
#endif
using Vec = double __attribute__((vector_size(8 * kLanes)));
using Mask = std::int64_t __attribute__((vector_size(8 * kLanes)));

#define TIGHTDP_VINLINE static inline __attribute__((always_inline))

TIGHTDP_VINLINE Vec splat(double x) { return x - Vec{}; }

TIGHTDP_VINLINE Vec iota() {
    Vec v{};
    for (int l = 0; l < kLanes; ++l) v[l] = l;
    return v;
}

// Functions that load and store vectors at any alignment.
TIGHTDP_VINLINE Vec load(const double* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

TIGHTDP_VINLINE void store(double* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }

TIGHTDP_VINLINE Vec select(Mask m, Vec a, Vec b) { return m ? a : b; }

TIGHTDP_VINLINE Mask bits(Vec v) { return (Mask)v; }

TIGHTDP_VINLINE Vec from_bits(Mask m) { return (Vec)m; }

TIGHTDP_VINLINE Vec abs(Vec v) { return from_bits(bits(v) & 0x7fffffffffffffffLL); }

TIGHTDP_VINLINE Vec max(Vec a, Vec b) { return select(a > b, a, b); }

TIGHTDP_VINLINE Vec min(Vec a, Vec b) { return select(a < b, a, b); }

// Returns the value of a polynomial at x, by Horner's rule. The coefficient of the highest power comes first.
template <class... Coefficients>
TIGHTDP_VINLINE Vec horner(Vec x, double highest, Coefficients... lower) {
    Vec p = splat(highest);
    ((p = p * x + lower), ...);
    return p;
}

// Returns the sum of the lanes, which are added in pairs.
TIGHTDP_VINLINE double sum(Vec v) {
    double part[kLanes];
    store(part, v);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) part[l] += part[l + half];
    return part[0];
}

}  // namespace tightdp::TIGHTDP_ISA
