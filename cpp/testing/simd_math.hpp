// Applies the vector functions of simd/math.hpp to arrays.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/dispatch.hpp"

namespace tightdp {

struct MathFunction {
    const char* name;
    void (*apply)(const double* x, double* out, std::ptrdiff_t n);  // n is a multiple of 8
};

TIGHTDP_DECLARE_SIMD(std::span<const MathFunction>, math_functions, ())

}  // namespace tightdp
