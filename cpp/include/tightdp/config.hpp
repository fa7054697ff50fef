// The one file that asks which compiler reads it.
#pragma once

#include <cfloat>
#include <cstdint>

// Marks a formula that is compiled for the host and, under nvcc, for the device too.
#if defined(__CUDACC__)
#define TIGHTDP_HD __host__ __device__
#else
#define TIGHTDP_HD
#endif

// A stage that the device calls and does not inline: device code inlines all it can, which costs minutes of compilation
// and registers that stages could share.
#if defined(__CUDACC__)
#define TIGHTDP_HD_STAGE __host__ __device__ __noinline__
#else
#define TIGHTDP_HD_STAGE
#endif

// Ends the program: for what cannot be reported from a formula.
#if defined(__CUDA_ARCH__)
#define TIGHTDP_TRAP() __trap()
#else
#define TIGHTDP_TRAP() __builtin_trap()
#endif

// A formula that .simd.cpp files compile once per instruction set: never a symbol of its own, so the linker cannot
// keep the copy that needs AVX-512 (cmake/simd.cmake).
#define TIGHTDP_FORMULA TIGHTDP_HD inline __attribute__((always_inline))

#if defined(__FAST_MATH__)
#error "the error bounds are those of IEEE arithmetic: compile without -ffast-math"
#endif

namespace tightdp {

// Steps and indices are std::int64_t, and go up to 2^53: on Windows a long has 32 bits.
static_assert(FLT_EVAL_METHOD == 0, "tightdp needs doubles that are rounded after every operation");

// Unit roundoff of double, round to nearest: every error bound of the project is written in multiples of it.
inline constexpr double kUnitRoundoff = 0x1p-53;

}  // namespace tightdp
