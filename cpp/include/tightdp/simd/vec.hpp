// Eight doubles that every GCC- or Clang-compiled instruction set can add, multiply and compare.
//
// The type and all that is done with it live in the namespace TIGHTDP_ISA, so that the copies compiled for different
// instruction sets are different symbols. Include from .simd.cpp files only.
#pragma once

#include <cstdint>

#if !defined(TIGHTDP_ISA)
#error "simd/vec.hpp is for .simd.cpp files, which are compiled once per instruction set"
#endif

namespace tightdp::TIGHTDP_ISA {

inline constexpr int kLanes = 8;
using Vec = double __attribute__((vector_size(64)));
using Mask = std::int64_t __attribute__((vector_size(64)));

#define TIGHTDP_VINLINE static inline __attribute__((always_inline))

TIGHTDP_VINLINE Vec splat(double x) { return Vec{x, x, x, x, x, x, x, x}; }

TIGHTDP_VINLINE Vec iota() { return Vec{0, 1, 2, 3, 4, 5, 6, 7}; }

// Loads and stores of any alignment.
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

// The sum of the lanes, pairwise.
TIGHTDP_VINLINE double sum(Vec v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

}  // namespace tightdp::TIGHTDP_ISA
