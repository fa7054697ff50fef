// The part of SampledMgf that differs for "replace" (docs/theory/contour.md, section 8). The loss is the difference
// ln W(u) - ln W(-u), and the integrand has the weight W(u)^{1 + c} W(-u)^{-c}. Here u is a value of a standard normal
// variable, and W(u) = 1 - q + q e^{u/sigma - 1/(2 sigma^2)}.
#include <algorithm>
#include <cmath>

#include "sampled_mgf.hpp"
#include "tightdp/special/normal.hpp"

namespace tightdp::contour {

void SampledMgf::compute_replace_nodes(const NodeGrid& grid, ReplaceNodes& out) const {
    std::vector<double> mirrored_log_weight(grid.n);
    for (std::vector<double>* array :
         {&out.log_weight, &out.posterior, &out.mirrored_posterior, &out.loss, &out.loss_error})
        array->resize(grid.n);
    TIGHTDP_SELECT_SIMD(compute_mgf_nodes)(grid, out.log_weight.data(), out.posterior.data());
    NodeGrid mirrored = grid;
    mirrored.h = -grid.h;
    TIGHTDP_SELECT_SIMD(compute_mgf_nodes)(mirrored, mirrored_log_weight.data(), out.mirrored_posterior.data());
    const double inverse = grid.inverse_sigma;
    for (std::int64_t i = 0; i < grid.n; ++i) {
        const double spread = std::abs((grid.first + i) * grid.h) * inverse + 0.5 * inverse * inverse;
        out.loss[i] = out.log_weight[i] - mirrored_log_weight[i];
        out.loss_error[i] = 13 * (std::abs(out.log_weight[i]) + std::abs(mirrored_log_weight[i])) +
                            6 * (out.posterior[i] + out.mirrored_posterior[i]) * spread + 2 * std::abs(out.loss[i]);
    }
}

void SampledMgf::sum_replace_moments(const NodeGrid& grid, const ReplaceNodes& nodes, double c, Moments& out,
                                     double* weights) const {
    out = {};
    const double shift = this->choose_mgf_weight_shift(c), scale = grid.h * kInvSqrt2Pi, inverse = grid.inverse_sigma;
    for (std::int64_t i = 0; i < grid.n; ++i) {
        const double u = (grid.first + i) * grid.h, half = 0.5 * u * u, loss = nodes.loss[i],
                     log_weight = nodes.log_weight[i];
        const double x = c * loss + log_weight, w = scale * std::exp(-half), a = scale * std::exp(x - half - shift);
        const double term = std::abs(x) < 0.5 ? w * std::expm1(x) : a - w;
        const double spread = std::abs(u) * inverse + 0.5 * inverse * inverse;
        const double eta = nodes.loss_error[i];
        // `off` bounds the error of x = c loss + ln W(u), in units of 2^-53. Its first term bounds the error of c loss,
        // and the other two terms bound the error of `log_weight`, which is ln W(u).
        const double off = c * (eta + 3 * std::abs(loss)) + 16 * std::abs(log_weight) + 6 * nodes.posterior[i] * spread;
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
