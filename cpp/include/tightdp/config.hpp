// Macros and checks that depend on the compiler.
#pragma once

#include <cfloat>
#include <cstdint>

// Marks a function that is compiled for the host and, by nvcc, for the device too.
#if defined(__CUDACC__)
#define TIGHTDP_HD __host__ __device__
#else
#define TIGHTDP_HD
#endif

// Marks a function that is not inlined in device code. nvcc would inline every function it can. Compilation would
// then take minutes longer, and functions could not share registers.
#if defined(__CUDACC__)
#define TIGHTDP_HD_STAGE __host__ __device__ __noinline__
#else
#define TIGHTDP_HD_STAGE
#endif

// Ends the program, for errors in device code that cannot be reported.
#if defined(__CUDA_ARCH__)
#define TIGHTDP_TRAP() __trap()
#else
#define TIGHTDP_TRAP() __builtin_trap()
#endif

// Marks a function that .simd.cpp files compile once for each instruction set. Such a function is always inlined and
// never becomes a symbol. Otherwise the linker might keep only the copy that needs AVX-512 (cmake/simd.cmake).
#define TIGHTDP_FORMULA TIGHTDP_HD inline __attribute__((always_inline))

#if defined(__FAST_MATH__)
#error "the error bounds are those of IEEE arithmetic: compile without -ffast-math"
#endif

namespace tightdp {

// Indices and numbers of steps go up to 2^53 and are std::int64_t, because a long has only 32 bits on Windows.

static_assert(FLT_EVAL_METHOD == 0, "tightdp needs doubles that are rounded after every operation");

// The unit roundoff of double with rounding to nearest. Comments write the unit roundoff as u, and error bounds are
// multiples of u.
inline constexpr double kUnitRoundoff = 0x1p-53;

}  // namespace tightdp
