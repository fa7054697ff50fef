// The vector functions of simd/math.hpp as functions of arrays, for tests.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/dispatch.hpp"

namespace tightdp {

// A vector function and its name. `apply` computes the function at the n numbers `x`, and writes the values to `out`.
struct MathFunction {
    const char* name;
    void (*apply)(const double* x, double* out, std::ptrdiff_t n);  // n is a multiple of 8
};

TIGHTDP_DECLARE_SIMD(std::span<const MathFunction>, math_functions, ())

}  // namespace tightdp
