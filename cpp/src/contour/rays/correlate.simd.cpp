// Computes the sums over the nodes of a path, as correlate.hpp declares (docs/theory/rays.md, section 4).
#include "correlate.hpp"

#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {

void correlate_ray_nodes(const double* a_re, const double* a_im, std::int64_t nodes, const double* k_re,
                         const double* k_im, std::int64_t points, double* out_re, double* out_im) {
    constexpr int many = contour::kPointBlock / kLanes;
    for (std::int64_t j = 0; j < points; j += contour::kPointBlock) {
        Vec all_re[many] = {}, all_im[many] = {};
        for (std::int64_t first = 0; first < nodes; first += contour::kChain) {
            const std::int64_t end = first + contour::kChain < nodes ? first + contour::kChain : nodes;
            Vec re[many] = {}, im[many] = {};
            for (std::int64_t i = first; i < end; ++i) {
                const Vec x = splat(a_re[i]), y = splat(a_im[i]);
                for (int b = 0; b < many; ++b) {
                    const Vec k = load(k_re + i + j + b * kLanes), l = load(k_im + i + j + b * kLanes);
                    re[b] += x * k - y * l;
                    im[b] += x * l + y * k;
                }
            }
            for (int b = 0; b < many; ++b) {
                all_re[b] += re[b];
                all_im[b] += im[b];
            }
        }
        for (int b = 0; b < many; ++b) {
            store(out_re + j + b * kLanes, all_re[b]);
            store(out_im + j + b * kLanes, all_im[b]);
        }
    }
}

}  // namespace tightdp::TIGHTDP_ISA
