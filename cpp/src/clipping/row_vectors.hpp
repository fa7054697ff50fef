// Vectors that hold kWidth columns of a record: one vector of floats, or a pair of vectors of doubles (Wide). Only
// .simd.cpp files include this header.
#pragma once

#include <cstdint>

#include "tightdp/clipping/narrow_float.hpp"

#if defined(TIGHTDP_ISA_avx2) || defined(TIGHTDP_ISA_avx512)
#include <immintrin.h>
#endif

namespace tightdp::TIGHTDP_ISA {

#define TIGHTDP_CLIP_INLINE static inline __attribute__((always_inline))

#if defined(TIGHTDP_ISA_avx512)
inline constexpr int kWidth = 16;
#elif defined(TIGHTDP_ISA_avx2)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif

using FloatVec = float __attribute__((vector_size(4 * kWidth)));
using DoubleVec = double __attribute__((vector_size(4 * kWidth)));
// Vectors that are read from memory at any alignment.
using FloatsAt = float __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
using DoublesAt = double __attribute__((vector_size(4 * kWidth), aligned(8), may_alias));

using IntVec = std::int32_t __attribute__((vector_size(4 * kWidth)));
using HalfIntVec = std::int32_t __attribute__((vector_size(2 * kWidth)));
// A vector of unsigned integers, so that sums wrap around.
using LongVec = std::uint64_t __attribute__((vector_size(4 * kWidth)));
using LongsAt = std::uint64_t __attribute__((vector_size(4 * kWidth), aligned(8), may_alias));

// kWidth columns as doubles, in two vectors.
struct Wide {
    DoubleVec low, high;
};

TIGHTDP_CLIP_INLINE Wide operator+(const Wide& a, const Wide& b) {
    return {a.low + b.low, a.high + b.high};
}
TIGHTDP_CLIP_INLINE Wide operator-(const Wide& a, const Wide& b) {
    return {a.low - b.low, a.high - b.high};
}
TIGHTDP_CLIP_INLINE Wide operator*(const Wide& a, const Wide& b) {
    return {a.low * b.low, a.high * b.high};
}
TIGHTDP_CLIP_INLINE Wide operator*(const Wide& a, double b) {
    return {a.low * b, a.high * b};
}

TIGHTDP_CLIP_INLINE FloatVec load_row_vector(const float* p) {
    return *reinterpret_cast<const FloatsAt*>(p);
}

template <class T>
TIGHTDP_CLIP_INLINE FloatVec load_narrow_row_vector(const T* p) {
    float x[kWidth];
    for (int i = 0; i < kWidth; ++i) x[i] = clipping::to_float(p[i]);
    return load_row_vector(x);
}
TIGHTDP_CLIP_INLINE FloatVec load_row_vector(const clipping::Float16* p) {
    return load_narrow_row_vector(p);
}
TIGHTDP_CLIP_INLINE FloatVec load_row_vector(const clipping::BFloat16* p) {
    return load_narrow_row_vector(p);
}

// Converts floats to doubles, exactly. The function uses intrinsics, because GCC 12 splits the vector into halves for
// __builtin_convertvector. The AVX-512 intrinsics take a mask that selects all elements, because GCC 12 warns of an
// undefined operand in the intrinsics without a mask.
TIGHTDP_CLIP_INLINE Wide widen_row_vector(FloatVec x) {
#if defined(TIGHTDP_ISA_avx512)
    const auto low = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
    const auto high = __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    return {(DoubleVec)_mm512_maskz_cvtps_pd(0xff, (__m256)low),
            (DoubleVec)_mm512_maskz_cvtps_pd(0xff, (__m256)high)};
#elif defined(TIGHTDP_ISA_avx2)
    return {(DoubleVec)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)),
            (DoubleVec)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1))};
#else
    return {DoubleVec{x[0], x[1]}, DoubleVec{x[2], x[3]}};
#endif
}

// Loads floats and converts them to doubles. AVX-512 and AVX2 load and convert each half in one instruction.
TIGHTDP_CLIP_INLINE Wide load_wide_row_vector(const float* p) {
#if defined(TIGHTDP_ISA_avx512)
    return {(DoubleVec)_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p)),
            (DoubleVec)_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p + 8))};
#elif defined(TIGHTDP_ISA_avx2)
    return {(DoubleVec)_mm256_cvtps_pd(_mm_loadu_ps(p)), (DoubleVec)_mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
#else
    return widen_row_vector(load_row_vector(p));
#endif
}

TIGHTDP_CLIP_INLINE Wide load_wide_row_vector(const double* p) {
    const auto* const at = reinterpret_cast<const DoublesAt*>(p);
    return {at[0], at[1]};
}
TIGHTDP_CLIP_INLINE Wide load_wide_row_vector(const clipping::Float16* p) {
    return widen_row_vector(load_row_vector(p));
}
TIGHTDP_CLIP_INLINE Wide load_wide_row_vector(const clipping::BFloat16* p) {
    return widen_row_vector(load_row_vector(p));
}

TIGHTDP_CLIP_INLINE void store_row_vector(double* p, const Wide& x) {
    auto* const at = reinterpret_cast<DoublesAt*>(p);
    at[0] = x.low;
    at[1] = x.high;
}

// Returns a + x * x for x with at most 24 significant bits. The product x * x is exact, so a fused multiply-add
// returns the same bits as a multiplication and an addition.
TIGHTDP_CLIP_INLINE DoubleVec add_exact_row_vector_square(DoubleVec a, DoubleVec x) {
#if defined(TIGHTDP_ISA_avx512)
    return (DoubleVec)_mm512_fmadd_pd((__m512d)x, (__m512d)x, (__m512d)a);
#elif defined(TIGHTDP_ISA_avx2)
    return (DoubleVec)_mm256_fmadd_pd((__m256d)x, (__m256d)x, (__m256d)a);
#else
    return a + x * x;
#endif
}

// Rounds toward zero. Precondition: |x| < 2^31.
TIGHTDP_CLIP_INLINE IntVec truncate_row_vector(FloatVec x) {
    return __builtin_convertvector(x, IntVec);
}
TIGHTDP_CLIP_INLINE IntVec truncate_row_vector(const Wide& x) {
#if defined(TIGHTDP_ISA_avx512)
    const auto low = (HalfIntVec)_mm512_maskz_cvttpd_epi32(0xff, (__m512d)x.low);
    const auto high = (HalfIntVec)_mm512_maskz_cvttpd_epi32(0xff, (__m512d)x.high);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(TIGHTDP_ISA_avx2)
    return (IntVec)_mm256_set_m128i(_mm256_cvttpd_epi32((__m256d)x.high),
                                    _mm256_cvttpd_epi32((__m256d)x.low));
#else
    return IntVec{static_cast<std::int32_t>(x.low[0]), static_cast<std::int32_t>(x.low[1]),
                  static_cast<std::int32_t>(x.high[0]), static_cast<std::int32_t>(x.high[1])};
#endif
}

// Computes p[i] = (fresh ? 0 : p[i]) + x[i] modulo 2^64.
TIGHTDP_CLIP_INLINE void add_row_vector_integers(std::int64_t* p, IntVec x, bool fresh) {
    auto* const at = reinterpret_cast<LongsAt*>(p);
#if defined(TIGHTDP_ISA_avx512)
    const HalfIntVec half[2] = {__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7),
                                __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)};
#elif defined(TIGHTDP_ISA_avx2)
    const HalfIntVec half[2] = {__builtin_shufflevector(x, x, 0, 1, 2, 3),
                                __builtin_shufflevector(x, x, 4, 5, 6, 7)};
#else
    const HalfIntVec half[2] = {__builtin_shufflevector(x, x, 0, 1), __builtin_shufflevector(x, x, 2, 3)};
#endif
    for (int i = 0; i < 2; ++i) {
        const LongVec wide = __builtin_convertvector(half[i], LongVec);
        at[i] = fresh ? wide : at[i] + wide;
    }
}

}  // namespace tightdp::TIGHTDP_ISA
