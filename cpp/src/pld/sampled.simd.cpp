// The edges of a Poisson sample's cells (grid.md, section 6.1).
#include "cells.simd.hpp"

#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

// y = log1p(expm1(x) / q) and its sensitivities; x > log(1 - q) strictly, else y is set to -infinity. Where e^x is
// beyond doubles y = x - log q, closer than doubles are.
void grid_poisson_edges(double q, double sign, const double* x, std::size_t count, double* y, double* ratio,
                        double* slack) {
    const double shift = -__builtin_log(q);
    const Vec one = splat(1.0);
    for (std::size_t i = 0; i < count; i += kLanes) {
        const Vec at = sign * load(x + i);
        // A quotient: a product would be contracted with the sum 1 + w in one place and not in the other, and near
        // log(1 - q) e^y must be that of y to the last bits.
        const Vec v = expm1(at) / q;
        const Mask inside = (Mask)(v > -1.0);
        const Vec w = select(inside, v, splat(0.0));
        const Mask far = (Mask)(at > 600.0);
        const Vec base = select(far, at + shift, log1p(w));
        const Vec weight = 1.0 + w;            // e^{base}
        const Vec total = 1.0 + q * w;         // e^{at}
        const Vec lost = select(far, one, q * abs(w) / total), share = select(far, one, q * weight / total);
        const Vec error = 8.0 * (lost + abs(base) * share);
        store(y + i, select(inside, sign * base, splat(sign * -__builtin_inf())));
        store(ratio + i, weight);
        store(slack + i, error * 0x1p-53);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
