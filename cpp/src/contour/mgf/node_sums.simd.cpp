// The loops declared in node_sums.hpp. Their error constants are derived in docs/theory/contour.md, section 5.
#include "node_sums.hpp"

#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

using contour::Moments;
using contour::NodeGrid;

namespace {

constexpr double kInvSqrt2Pi = 0.39894228040143267794;
// Largest t at which ln W is computed from e^t, with t and W of NodeGrid. If t > kLargeT, ln W is t + ln q up to
// rounding errors, because q >= 1e-9.
constexpr double kLargeT = 690.0;

TIGHTDP_VINLINE Vec mgf_node_values(const NodeGrid& g, std::int64_t i) {
    return (g.first + (double)i + iota()) * g.h;
}

TIGHTDP_VINLINE Vec mgf_node_exponent(const NodeGrid& g, Vec u) {
    return (u - 0.5 * g.inverse_sigma) * g.inverse_sigma;
}

}  // namespace

void compute_mgf_nodes(const NodeGrid& g, double* loss, double* posterior) {
    const Vec log_q = log(splat(g.q));
    const double rest = 1 - g.q;
    for (std::int64_t i = 0; i < g.n; i += kLanes) {
        const Vec t = mgf_node_exponent(g, mgf_node_values(g, i));
        const Vec e = g.q * exp(min(t, splat(kLargeT)));
        const Vec direct = rest + e;
        const Vec x = g.q * expm1(min(t, splat(kLargeT)));
        // ln W is computed from the sum `direct` if W is small, and from 1 + x = W otherwise. Neither sum loses digits
        // by cancellation. `correction` is the rounding error of y = 1 + x.
        const Vec y = 1.0 + x;
        const Vec correction = select(x < 1.0, x - (y - 1.0), 1.0 - (y - x));
        const Mask small = (Mask)(x < -0.5);
        const Vec near = vec_log_corrected(select(small, direct, y), select(small, splat(0.0), correction));
        const Mask large = (Mask)(t > kLargeT);
        store(loss + i, select(large, t + log_q, near));
        store(posterior + i, select(large, splat(1.0), e / direct));
    }
}

void sum_mgf_moments(const NodeGrid& g, double beta, double shift, const double* loss, const double* posterior,
                     double* weights, Moments& out) {
    Vec sum0{}, minus{}, first{}, second{}, abs1{}, alpha{}, alpha1{}, eta{}, minus_err{};
    const double abs_beta = beta < 0 ? -beta : beta;
    const double scale = g.h * kInvSqrt2Pi;
    for (std::int64_t i = 0; i < g.n; i += kLanes) {
        const Vec u = mgf_node_values(g, i);
        const Vec half = 0.5 * u * u;
        const Vec l = load(loss + i);
        const Vec abs_l = abs(l);
        const Vec x = beta * l;
        const Vec w = scale * exp(-half);
        const Vec a = scale * exp(x - half - shift);
        const Vec term = select((Mask)(abs(x) < 0.5), w * expm1(x), a - w);
        sum0 += a;
        minus += term;
        first += a * l;
        second += a * l * l;
        abs1 += a * abs_l;
        const Vec rt = load(posterior + i) * (abs(u) * g.inverse_sigma + 0.5 * g.inverse_sigma * g.inverse_sigma);
        const Vec eta_i = 13.0 * abs_l + 6.0 * rt;
        const Vec alpha_i = abs_beta * (eta_i + 3.0 * abs_l) + 4.0 * half + (2 * shift + 10.0);
        alpha += a * alpha_i;
        alpha1 += a * alpha_i * abs_l;
        eta += a * eta_i;
        minus_err += abs(term) * (3.0 * (4.0 * half + 14.0)) + a * (abs_beta * (eta_i + 3.0 * abs_l));
        if (weights) store(weights + i, a);
    }
    out = {sum(sum0),  sum(minus),  sum(first), sum(second),   sum(abs1),
           sum(alpha), sum(alpha1), sum(eta),   sum(minus_err)};
}

}  // namespace tightdp::TIGHTDP_ISA
