#include "simd_math.hpp"

#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

template <Vec f(Vec)>
void apply_testing_function(const double* x, double* out, std::ptrdiff_t n) {
    for (std::ptrdiff_t i = 0; i < n; i += kLanes) store(out + i, f(load(x + i)));
}

Vec testing_cos_minus_1(Vec x) {
    return vec_cis_minus_one(x).re;
}
Vec testing_sin(Vec x) {
    return vec_cis_minus_one(x).im;
}

constexpr MathFunction kFunctions[] = {
    {"exp", apply_testing_function<exp>},         {"expm1", apply_testing_function<expm1>},
    {"log", apply_testing_function<log>},         {"log1p", apply_testing_function<log1p>},
    {"sin", apply_testing_function<testing_sin>}, {"cos_minus_1", apply_testing_function<testing_cos_minus_1>}};

}  // namespace

std::span<const MathFunction> math_functions() {
    return kFunctions;
}

}  // namespace tightdp::TIGHTDP_ISA
