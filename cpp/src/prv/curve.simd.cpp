#include "curve.hpp"

#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {

void sum_curve_block(const double* p, const double* decay, std::int64_t count, double& total, double& weighted) {
    constexpr int kVectors = 8 / kLanes;  // eight partial sums on every machine, so that each sum has few additions
    Vec a[kVectors]{}, b[kVectors]{};
    for (std::int64_t j = 0; j < count; j += 8)
        for (int i = 0; i < kVectors; ++i) {
            const Vec v = load(p + j + i * kLanes);
            a[i] += v;
            b[i] += v * load(decay + j + i * kLanes);
        }
    for (int half = kVectors / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) {
            a[i] += a[i + half];
            b[i] += b[i + half];
        }
    total = sum(a[0]);
    weighted = sum(b[0]);
}

double sum_curve_squares(const double* p, std::int64_t count) {
    Vec a{}, b{};
    for (std::int64_t j = 0; j < count; j += 2 * kLanes) {
        const Vec v = load(p + j), w = load(p + j + kLanes);
        a += v * v;
        b += w * w;
    }
    return sum(a + b);
}

}  // namespace tightdp::TIGHTDP_ISA
