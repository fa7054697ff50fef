// The loop declared in kernels.hpp.
#include "kernels.hpp"

namespace tightdp::TIGHTDP_ISA {

void allocation_window(const double* const* w, const double* const* m, int pieces, const double* q, const double* p,
                       const double* v, double scale, std::size_t count, double* __restrict mass,
                       double* __restrict moment) {
    const double *w0 = w[0], *m0 = m[0];
    if (pieces == 1) {
        for (std::size_t i = 0; i < count; ++i) {
            mass[i] += scale * q[i] * w0[i];
            moment[i] += p[i] * w0[i] + v[i] * m0[i];
        }
        return;
    }
    const double *w1 = w[1], *m1 = m[1];
    if (pieces == 2) {
        for (std::size_t i = 0; i < count; ++i) {
            const double a = w0[i] + w1[i], b = m0[i] + m1[i];
            mass[i] += scale * q[i] * a;
            moment[i] += p[i] * a + v[i] * b;
        }
        return;
    }
    const double *w2 = w[2], *m2 = m[2];
    if (pieces == 3) {
        for (std::size_t i = 0; i < count; ++i) {
            const double a = w0[i] + w1[i] + w2[i], b = m0[i] + m1[i] + m2[i];
            mass[i] += scale * q[i] * a;
            moment[i] += p[i] * a + v[i] * b;
        }
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        double a = w0[i] + w1[i] + w2[i], b = m0[i] + m1[i] + m2[i];
        for (int j = 3; j < pieces; ++j) a += w[j][i], b += m[j][i];
        mass[i] += scale * q[i] * a;
        moment[i] += p[i] * a + v[i] * b;
    }
}

}  // namespace tightdp::TIGHTDP_ISA
