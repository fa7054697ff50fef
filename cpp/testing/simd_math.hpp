// The vector functions of simd/math.hpp over arrays, so that tests can hold them to high-precision values.
#pragma once

#include "runtime/dispatch.hpp"

namespace tightdp {

enum class MathFunction { exp, expm1, log, log1p, cos_minus_1, sin };

TIGHTDP_DECLARE_SIMD(void, apply_math, (MathFunction function, const double* x, double* out, long n))

// n a multiple of 8; the widest instruction set at hand.
void apply_math(MathFunction function, const double* x, double* out, long n);

}  // namespace tightdp
