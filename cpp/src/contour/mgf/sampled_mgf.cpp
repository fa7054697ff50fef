#include "sampled_mgf.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Units of work (runtime/work_budget.hpp). The first is for the loss at one node, or for the node's terms of the
// moments. The second is for these terms under "replace". The third is for the products of four nodes at one abscissa.
constexpr std::int64_t kNodeUnits = 3, kReplacedUnits = 30, kFourProductsUnits = 2;

}  // namespace

double SampledMgf::count_nodes_needed(double c_most, double s_most, double log_inverse) const {
    const NodeRange e = choose_mgf_node_range(pair_, c_most, s_most, log_inverse);
    return e.right - e.left < kMaxNodes ? e.right - e.left : HUGE_VAL;
}

bool SampledMgf::place_nodes(double c_most, double s_most, double log_inverse, std::int64_t most_nodes) {
    const auto [h, margin, left, right] = choose_mgf_node_range(pair_, c_most, s_most, log_inverse);
    if (!(right - left < most_nodes)) return false;
    margin_ = margin;
    s_most_ = s_most;
    const std::int64_t n = static_cast<std::int64_t>(right - left) + 1;
    grid_ = {pair_.q, 1 / pair_.sigma, h, left, (n + kNodeBlock - 1) / kNodeBlock * kNodeBlock};
    loss_.resize(grid_.n);
    posterior_.resize(grid_.n);
    weights_.resize(grid_.n);
    work::spend(kNodeUnits * grid_.n);
    if (pair_.is_contour_replace()) {
        compute_replace_nodes(grid_, replace_nodes_);
        loss_ = replace_nodes_.loss;
    } else {
        TIGHTDP_SELECT_SIMD(compute_mgf_nodes)(grid_, loss_.data(), posterior_.data());
    }
    return true;
}

double SampledMgf::largest_mgf_node_loss() const {
    return std::max(std::abs(loss_.front()), std::abs(loss_.back()));
}

double SampledMgf::choose_mgf_weight_shift(double c) const {
    const double b = pair_.contour_composition_weight_power(c), most = bound_log_mgf_without_nodes(pair_, c);
    if (pair_.is_contour_replace())
        return weight_shift(grid_, most, [&](std::int64_t i) { return c * loss_[i] + replace_nodes_.log_weight[i]; });
    return weight_shift(grid_, most, [&](std::int64_t i) { return b * loss_[i]; });
}

void SampledMgf::sum_node_moments(double c, Moments& out, double* weights) {
    work::spend((pair_.is_contour_replace() ? kReplacedUnits : kNodeUnits) * grid_.n);
    if (pair_.is_contour_replace()) return sum_replace_moments(grid_, replace_nodes_, c, out, weights);
    TIGHTDP_SELECT_SIMD(sum_mgf_moments)
    (grid_, pair_.contour_composition_weight_power(c), choose_mgf_weight_shift(c), loss_.data(), posterior_.data(), weights, out);
}

Cumulants SampledMgf::estimate_cumulants(double c) {
    Moments m;
    sum_node_moments(c, m, nullptr);
    return mgf_cumulants(m, choose_mgf_weight_shift(c), count_, pair_.is_contour_add());
}

CertifiedLogMgf SampledMgf::log_mgf(double c) {
    Moments m;
    sum_node_moments(c, m, nullptr);
    const double rule = real_mgf_rule_error(pair_, c, grid_.h, margin_);
    return log_mgf_from_moments(m, choose_mgf_weight_shift(c), rule, grid_.n, count_);
}

double SampledMgf::compute_mgf_ratios(double c, double step, std::int64_t steps, double* re, double* im,
                                      double* rounding) {
    Moments m;
    sum_node_moments(c, m, weights_.data());
    // Nodes without a significant weight at c are left out. There may be such nodes on the right, because place_nodes()
    // chose the nodes for all abscissae up to c_most.
    const double reach = quadrature_right_end(pair_, c, margin_);
    std::int64_t n = static_cast<std::int64_t>(std::ceil(reach / grid_.h) + 1 - grid_.first) + 1;
    n = std::min(grid_.n, (n + kNodeBlock - 1) / kNodeBlock * kNodeBlock);
    work::spend(kFourProductsUnits * (n / 4) * steps);
    TIGHTDP_SELECT_SIMD(sum_mgf_phases)
    (loss_.data(), pair_.is_contour_add() ? -1.0 : 1.0, weights_.data(), n, step, steps, re, im);
    const double inverse = 1 / m.sum;
    // The rounding error comes from the phases, their recurrence, the weights and the sum (contour.md, section 5.2).
    const double abs_first = m.abs_first * inverse, alpha = m.alpha * inverse;
    const double fixed = m.alpha_first * inverse + m.eta * inverse + abs_first * (n + 40.0 + alpha);
    for (std::int64_t i = 0; i < steps; ++i) {
        re[i] *= inverse;
        im[i] *= inverse;
        const double row = i < 128 ? static_cast<double>(i) + 1 : 44;
        rounding[i] = kUnitRoundoff * step * (i + 1) * (fixed + 2 * row * abs_first);
    }
    return complex_mgf_rule_error(pair_, c, s_most_, grid_.h, margin_);
}

}  // namespace tightdp::contour
