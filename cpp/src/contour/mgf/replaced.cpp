// The part of SampledMgf that differs for "replace" (docs/theory/contour.md, section 8). The loss is the difference
// ln W(u) - ln W(-u), and the integrand has the weight W(u)^{1 + c} W(-u)^{-c}, with W of quadrature.hpp.
#include <algorithm>
#include <cmath>

#include "sampled_mgf.hpp"
#include "tightdp/special/normal.hpp"

namespace tightdp::contour {

void SampledMgf::nodes_replaced(const NodeGrid& grid, ReplacedNodes& out) const {
    std::vector<double> behind(grid.n);
    for (std::vector<double>* array : {&out.ahead, &out.bright, &out.faint, &out.loss, &out.eta}) array->resize(grid.n);
    TIGHTDP_SELECT_SIMD(contour_nodes)(grid, out.ahead.data(), out.bright.data());
    NodeGrid mirrored = grid;
    mirrored.h = -grid.h;
    TIGHTDP_SELECT_SIMD(contour_nodes)(mirrored, behind.data(), out.faint.data());
    const double inverse = grid.inverse_sigma;
    for (std::int64_t i = 0; i < grid.n; ++i) {
        const double spread = std::abs((grid.first + i) * grid.h) * inverse + 0.5 * inverse * inverse;
        out.loss[i] = out.ahead[i] - behind[i];
        out.eta[i] = 13 * (std::abs(out.ahead[i]) + std::abs(behind[i])) + 6 * (out.bright[i] + out.faint[i]) * spread +
                     2 * std::abs(out.loss[i]);
    }
}

void SampledMgf::moments_replaced(const NodeGrid& grid, const ReplacedNodes& nodes, double c, Moments& out,
                                  double* weights) const {
    out = {};
    const double shift = this->shift(c), scale = grid.h * kInvSqrt2Pi, inverse = grid.inverse_sigma;
    for (std::int64_t i = 0; i < grid.n; ++i) {
        const double u = (grid.first + i) * grid.h, half = 0.5 * u * u, loss = nodes.loss[i], ahead = nodes.ahead[i];
        const double x = c * loss + ahead, w = scale * std::exp(-half), a = scale * std::exp(x - half - shift);
        const double term = std::abs(x) < 0.5 ? w * std::expm1(x) : a - w;
        const double spread = std::abs(u) * inverse + 0.5 * inverse * inverse;
        const double eta = nodes.eta[i];
        // `off` is the error of x: c times the error of the loss, plus the error of `ahead`, which is ln W(u).
        const double off = c * (eta + 3 * std::abs(loss)) + 16 * std::abs(ahead) + 6 * nodes.bright[i] * spread;
        const double alpha = off + 4 * half + 2 * shift + 10;
        out.sum += a;
        out.minus_one += term;
        out.first += a * loss;
        out.second += a * loss * loss;
        out.abs_first += a * std::abs(loss);
        out.alpha += a * alpha;
        out.alpha_first += a * alpha * std::abs(loss);
        out.eta += a * eta;
        out.minus_one_err += std::abs(term) * (3 * (4 * half + 14)) + a * off;
        if (weights) weights[i] = a;
    }
}

}  // namespace tightdp::contour
