#include "simd_math.hpp"

#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

// n a multiple of 8.
void apply_math(MathFunction function, const double* x, double* out, long n) {
    for (long i = 0; i < n; i += kLanes) {
        const Vec v = load(x + i);
        Vec y{};
        switch (function) {
            case MathFunction::exp: y = exp(v); break;
            case MathFunction::expm1: y = expm1(v); break;
            case MathFunction::log: y = log(v); break;
            case MathFunction::log1p: y = log1p(v); break;
            case MathFunction::cos_minus_1: y = cism1(v).re; break;
            case MathFunction::sin: y = cism1(v).im; break;
        }
        store(out + i, y);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
