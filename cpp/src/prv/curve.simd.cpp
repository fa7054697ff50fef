#include "curve.hpp"

#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {

void prv_block_sums(const double* p, const double* decay, std::int64_t count, double& total, double& weighted) {
    Vec a{}, b{};
    for (std::int64_t j = 0; j < count; j += kLanes) {
        const Vec v = load(p + j);
        a += v;
        b += v * load(decay + j);
    }
    total = sum(a);
    weighted = sum(b);
}

double prv_sum_squares(const double* p, std::int64_t count) {
    Vec a{}, b{};
    for (std::int64_t j = 0; j < count; j += 2 * kLanes) {
        const Vec v = load(p + j), w = load(p + j + kLanes);
        a += v * v;
        b += w * w;
    }
    return sum(a + b);
}

}  // namespace tightdp::TIGHTDP_ISA
