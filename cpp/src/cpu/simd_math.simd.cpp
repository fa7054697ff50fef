// The vector functions as loops over arrays, for the tests that hold them to high-precision values.
#include "tightdp/simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

// function: 0 exp, 1 expm1, 2 log, 3 log1p, 4 cos - 1, 5 sin. n a multiple of 8.
void apply_math(int function, const double* x, double* out, long n) {
    for (long i = 0; i < n; i += kLanes) {
        const Vec v = load(x + i);
        Vec y{};
        switch (function) {
            case 0: y = exp(v); break;
            case 1: y = expm1(v); break;
            case 2: y = log(v); break;
            case 3: y = log1p(v); break;
            case 4: y = cism1(v).re; break;
            default: y = cism1(v).im; break;
        }
        store(out + i, y);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
