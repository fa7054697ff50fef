// Computes, for each edge x of the cells after Poisson sampling, the loss y before sampling (grid.md, section 6.1).
#include "cell_loops.simd.hpp"
#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

// Computes y = sign log1p(expm1(sign x) / q), or y = -sign infinity if sign x <= log(1 - q). `ratio` is e^{sign y}.
// `slack` is the change of x that has the same effect as the rounding error of y. If e^{sign x} may overflow, the code
// uses x - sign log q, which is equal to y within rounding errors.
void find_poisson_loss_edges(double q, double sign, const double* x, std::size_t count, double* y, double* ratio,
                             double* slack) {
    const double shift = -__builtin_log(q);
    const Vec one = splat(1.0);
    for (std::size_t i = 0; i < count; i += kLanes) {
        const Vec at = sign * load(x + i);
        // The code divides by q instead of multiplying by 1/q. A compiler could contract a product and the sum 1 + w to
        // one operation in one place but not in another. Such a contraction would do harm near log(1 - q), because the
        // ratio 1 + w has to match y to the last bits there.
        const Vec v = expm1(at) / q;
        const Mask inside = (Mask)(v > -1.0);
        const Vec w = select(inside, v, splat(0.0));
        const Mask far = (Mask)(at > 600.0);
        const Vec base = select(far, at + shift, log1p(w));
        const Vec weight = 1.0 + w;     // e^{base}
        const Vec total = 1.0 + q * w;  // e^{at}
        const Vec lost = select(far, one, q * abs(w) / total), share = select(far, one, q * weight / total);
        const Vec error = 8.0 * (lost + abs(base) * share);
        store(y + i, select(inside, sign * base, splat(sign * -__builtin_inf())));
        store(ratio + i, weight);
        store(slack + i, error * 0x1p-53);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
