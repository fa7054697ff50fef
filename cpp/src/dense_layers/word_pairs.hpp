// Multiplies pairs of integers of 16 bits. Only .simd.cpp files include this header.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {

inline constexpr int kWords = 2 * kLanes;
using Words = std::int32_t __attribute__((vector_size(8 * kLanes)));

// Adds x0 w0 + x1 w1 to s in each lane of 32 bits, where x0 is the lower half of x and x1 the upper half.
struct MultiplyAdd {
    TIGHTDP_VINLINE void add_part_pairs(Words& s, Words x, Words w) {
#if defined(TIGHTDP_ISA_avx512)
        s += (Words)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#elif defined(TIGHTDP_ISA_avx2)
        s += (Words)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif defined(__SSE2__)
        s += (Words)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
        s += (x >> 16) * (w >> 16) + ((x << 16) >> 16) * ((w << 16) >> 16);
#endif
    }
};

// Adds the same products as MultiplyAdd, in one instruction of the extension VNNI. The instruction is written in
// assembler, so that the compiler may not use the extension elsewhere. Processors without the extension use
// MultiplyAdd.
struct DotProduct {
    TIGHTDP_VINLINE void add_part_pairs([[maybe_unused]] Words& s, [[maybe_unused]] Words x, [[maybe_unused]] Words w) {
#if defined(TIGHTDP_ISA_avx512)
        asm("vpdpwssd %2, %1, %0" : "+v"(s) : "v"(x), "v"(w));
#elif defined(TIGHTDP_ISA_avx2)
        asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(s) : "x"(x), "x"(w));
#endif
    }
};

}  // namespace tightdp::TIGHTDP_ISA
