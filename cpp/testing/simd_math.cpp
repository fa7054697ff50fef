#include "simd_math.hpp"

namespace tightdp {

void apply_math(MathFunction function, const double* x, double* out, long n) {
    TIGHTDP_SELECT_SIMD(apply_math)(function, x, out, n);
}

}  // namespace tightdp
