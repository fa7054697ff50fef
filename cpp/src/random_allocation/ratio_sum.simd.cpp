// The loop declared in ratio_sum.simd.hpp.
#include "ratio_sum.simd.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// Sums the first `written` of the `pieces` arrays w[j] and m[j] in unrolled code, and the rest in a loop.
template <int written>
inline __attribute__((always_inline)) void sum_allocation_window(const double* const* w, const double* const* m,
                                                                 int pieces, const double* q, const double* p,
                                                                 const double* v, double scale, std::size_t count,
                                                                 double* __restrict mass, double* __restrict moment) {
    for (std::size_t i = 0; i < count; ++i) {
        double a = w[0][i], b = m[0][i];
#pragma GCC unroll 4
        for (int j = 1; j < written; ++j) a += w[j][i], b += m[j][i];
        for (int j = written; j < pieces; ++j) a += w[j][i], b += m[j][i];
        mass[i] += scale * q[i] * a;
        moment[i] += p[i] * a + v[i] * b;
    }
}

}  // namespace

void allocation_window(const double* const* w, const double* const* m, int pieces, const double* q, const double* p,
                       const double* v, double scale, std::size_t count, double* mass, double* moment) {
    if (pieces == 1) return sum_allocation_window<1>(w, m, 1, q, p, v, scale, count, mass, moment);
    if (pieces == 2) return sum_allocation_window<2>(w, m, 2, q, p, v, scale, count, mass, moment);
    if (pieces == 3) return sum_allocation_window<3>(w, m, 3, q, p, v, scale, count, mass, moment);
    sum_allocation_window<3>(w, m, pieces, q, p, v, scale, count, mass, moment);
}

}  // namespace tightdp::TIGHTDP_ISA
