// Multiplies matrices of signed bytes by the matrix unit of a device. The bytes are digits of larger integers. For
// tests, testing/device_emulation.hpp defines the same function on the host.
#pragma once

#if defined(__CUDACC__)

#include <cstdint>

namespace tightdp::cuda {

// Adds a matrix product to a 16 x 8 matrix of sums: sum_k left[m][k] right[k][n] is added to sums[m][n], for m < 16,
// n < 8 and k < 32. The entries of `left` and `right` are signed bytes. Each lane of a warp holds a part of the three
// matrices, and all lanes of the warp have to call this function. Lane l holds the sums of the rows l / 4 and l / 4 + 8
// in the columns 2 (l mod 4) and 2 (l mod 4) + 1. The lane also holds bytes of these two rows of `left`, and of the
// column l / 4 of `right`. Let i = 4 (l mod 4). The bytes are those with k = i, ..., i + 3 and k = i + 16, ..., i + 19.
__device__ inline void multiply_digits(std::int32_t (&sums)[4], const std::uint32_t (&left)[4], std::uint32_t right_low,
                                       std::uint32_t right_high) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_low), "r"(right_high));
#else
    // The instruction of the Turing architecture multiplies only eight rows of 16 bytes, so four calls are needed.
    const std::uint32_t right[2] = {right_low, right_high};
    for (int word = 0; word < 4; ++word) {
        std::int32_t* const half = sums + 2 * (word % 2);
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+r"(half[0]), "+r"(half[1])
                     : "r"(left[word]), "r"(right[word / 2]));
    }
#endif
}

}  // namespace tightdp::cuda

#endif
