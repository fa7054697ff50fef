#include "simd_math.hpp"

#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

template <Vec f(Vec)>
void over(const double* x, double* out, std::ptrdiff_t n) {
    for (std::ptrdiff_t i = 0; i < n; i += kLanes) store(out + i, f(load(x + i)));
}

Vec cos_minus_1(Vec x) {
    return vec_cis_minus_one(x).re;
}
Vec sin(Vec x) {
    return vec_cis_minus_one(x).im;
}

constexpr MathFunction kFunctions[] = {{"exp", over<exp>}, {"expm1", over<expm1>},
                                       {"log", over<log>}, {"log1p", over<log1p>},
                                       {"sin", over<sin>}, {"cos_minus_1", over<cos_minus_1>}};

}  // namespace

std::span<const MathFunction> math_functions() {
    return kFunctions;
}

}  // namespace tightdp::TIGHTDP_ISA
