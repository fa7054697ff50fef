// The loop declared in moved_line.hpp (docs/theory/contour.md, section 3.6). At each node, u is the node's place, y
// is the distance by which the line of integration is moved, r is the posterior weight, and a is the node's weight.
// e^g = J / J_0 is the factor by which moving the line changes the modulus of the integrand at the node. J_0 is the
// integrand of M(c), and J the modulus on the moved line (moved_line.hpp).
#include "moved_line.hpp"

#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

void sum_over_moved_line(const contour::MovedLine& line, double s, const contour::Move& move, const double* posterior,
                         const double* weights, std::int64_t n, contour::MovedSums& out) {
    const double inverse = 1 / line.sigma, half_beta = 0.5 * line.beta;
    const double abs_beta = line.beta < 0 ? -line.beta : line.beta;
    Vec lost{}, size{};
    for (std::int64_t i = 0; i < n; i += kLanes) {
        const Vec a = load(weights + i), r = load(posterior + i), rest = 1.0 - r;
        const Vec p = move.kappa * r / (rest + move.kappa * r);
        const Vec y = move.height * p, bend = y * (1.0 - p) * inverse;
        const Cis turn = vec_cis_minus_one(y * inverse);
        // Let theta = y / sigma, and let psi be the argument of W(u + iy). Then |W(u + iy)|^2 = W(u)^2 (1 - x), and
        // tan(psi / 2) = r sin(theta) / (sqrt(1 - x) + 1 - r + r cos(theta)). By partial sums, `root` bounds the
        // square root from above, and `arg` bounds psi from below.
        const Vec x = -2.0 * r * rest * turn.re;
        const Vec root = 1.0 - x * (0.5 + x * (0.125 + x * 0.0625));
        const Vec t = r * turn.im / (root + (rest + r * (1.0 + turn.re))), tt = t * t;
        const Vec arg = 2.0 * t * (1.0 - tt * (1.0 / 3 - tt * (0.2 - tt * (1.0 / 7))));
        const Vec cost = 0.5 * (y * y + bend * bend), power = half_beta * log1p(-x), phase = s * arg;
        const Vec g = cost + power - phase + line.slack * (cost + abs(power) + phase) + 1e-15 * abs_beta;
        const Vec term = -a * expm1(g);
        lost += term;
        size += abs(term);
    }
    out = {sum(lost), sum(size)};
}

}  // namespace tightdp::TIGHTDP_ISA
