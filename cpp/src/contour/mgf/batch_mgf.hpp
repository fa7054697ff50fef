// The moment generating function (MGF) M of a Gaussian mechanism on a Poisson sample, for one setting of a batch
// (contour/batch/batch_curve.hpp). The lanes of a team (runtime/team.hpp) together compute the nodes of the quadrature,
// the cumulants, and M at complex arguments. The loops are the same as in sampled_mgf.cpp, but with fixed memory. The
// formulas are in mgf_moments.hpp, and the proofs in docs/theory/contour.md, sections 4, 5 and 7.
#pragma once

#include <cmath>
#include <cstdint>

#include "contour/batch/batch_memory.hpp"
#include "mgf_moments.hpp"
#include "tightdp/special/normal.hpp"
#include "tightdp/special/sampled_loss.hpp"

namespace tightdp::contour {

// Number of abscissae (arguments c + i * s of the MGF) whose sums a lane computes at the same time, in registers.
inline constexpr int kBatchRow = 8;

// Computes e^{ix} - 1 without cancellation. If sine and cosine have relative errors of at most 4 u, where u = 2^-53,
// the error is at most 10 u |e^{ix} - 1| (contour.md, section 7).
TIGHTDP_HD inline void node_phase_minus_one(double x, double& re, double& im) noexcept {
    const double s = std::sin(0.5 * x), c = std::cos(0.5 * x);
    re = -2 * s * s;
    im = 2 * s * c;
}

template <class Team>
class BatchMgf {
  public:
    TIGHTDP_HD BatchMgf(const Team& team, BatchMemory& memory, const Pair& pair, double count) noexcept
        : team_(team), m_(memory), pair_(pair), count_(count) {}

    TIGHTDP_HD double step_count() const noexcept { return count_; }
    TIGHTDP_HD std::int64_t node_count() const noexcept { return n_; }

    // Places nodes for all abscissae c + is with c <= c_most and |s| <= s_most. The relative error of the trapezoid
    // rule is at most e^{-log_inverse}, and so is that of leaving out nodes beyond a finite range. Returns false if
    // there are more than kBatchNodes nodes.
    TIGHTDP_HD_STAGE bool place_nodes(double c_most, double s_most, double log_inverse) noexcept {
        const NodeRange e = choose_mgf_node_range(pair_, c_most, s_most, log_inverse);
        const double left = e.left, right = e.right;
        h_ = e.h;
        margin_ = e.margin;
        s_most_ = s_most;
        if (!(right - left < kBatchNodes)) return false;
        first_ = left;
        n_ = static_cast<std::int64_t>(right - left) + 1;
        team_.sync();
        fill_nodes(h_, first_, n_, m_.loss, m_.posterior);
        team_.sync();
        return true;
    }

    TIGHTDP_HD double largest_mgf_node_loss() const noexcept {
        return max_value(std::fabs(m_.loss[0]), std::fabs(m_.loss[n_ - 1]));
    }

    // Estimates count * ln M and its derivatives at c <= c_most.
    TIGHTDP_HD_STAGE Cumulants estimate_cumulants(double c) const noexcept {
        const double s = choose_mgf_weight_shift(c);
        return mgf_cumulants(sum_node_moments<false>(c, s, nullptr), s, count_, pair_.is_contour_add());
    }

    // Returns count * ln M(c) with bounds on its errors, for c <= c_most.
    TIGHTDP_HD_STAGE CertifiedLogMgf log_mgf(double c) const noexcept {
        const double s = choose_mgf_weight_shift(c);
        const Moments m = sum_node_moments<true>(c, s, nullptr);
        return log_mgf_from_moments(m, s, real_mgf_rule_error(pair_, c, h_, margin_), n_, count_);
    }

    // Writes xi_m = M(c + i m step)/M(c) - 1 to re[m] and im[m], m = 1..steps, and a bound on its rounding error to
    // round[m]. Returns a bound on the error of the trapezoid rule that holds for all xi_m.
    TIGHTDP_HD_STAGE double compute_mgf_ratios(double c, double step, std::int64_t steps) const noexcept {
        const Moments m = sum_node_moments<true>(c, choose_mgf_weight_shift(c), m_.weights);
        const double reach = quadrature_right_end(pair_, c, margin_);
        const double needed = std::ceil(reach / h_) + 1 - first_ + 1;
        const std::int64_t n = needed < static_cast<double>(n_) ? static_cast<std::int64_t>(needed) : n_;
        const double inverse = 1 / m.sum;
        sum_node_phases(m_.loss, pair_.is_contour_add() ? -1.0 : 1.0, m_.weights, n, step, steps, inverse, m_.re, m_.im);
        // The recurrence for e^{ix} - 1 in sum_node_phases() restarts every kBatchRow abscissae. The bound on the
        // rounding error of such a short recurrence is in contour.md, section 7, instead of section 5.2.
        const double abs_first = m.abs_first * inverse, alpha = m.alpha * inverse;
        const double fixed = m.alpha_first * inverse + m.eta * inverse + abs_first * (2.0 * n + 60 + alpha);
        for (std::int64_t i = team_.lane() + 1; i <= steps; i += team_.size())
            m_.round[i] = kUnitRoundoff * step * static_cast<double>(i) * fixed;
        team_.sync();
        return complex_mgf_rule_error(pair_, c, s_most_, h_, margin_);
    }

    // Writes scale * sum_i a_i (e^{i m step sign y_i} - 1) to re[m] and im[m], m = 1..steps.
    TIGHTDP_HD_STAGE void sum_node_phases(const double* y, double sign, const double* a, std::int64_t n, double step,
                                          std::int64_t steps, double scale, double* re, double* im) const noexcept {
        const double stride = static_cast<double>(team_.size());
        team_.sync();
        for (std::int64_t i = team_.lane(); i < n; i += team_.size())
            node_phase_minus_one(stride * step * (sign * y[i]), m_.turn_re[i], m_.turn_im[i]);
        team_.sync();
        for (std::int64_t base = 0; base < steps; base += static_cast<std::int64_t>(team_.size()) * kBatchRow) {
            const std::int64_t m0 = base + team_.lane() + 1;
            // Number of rounds in which at least one lane has an abscissa. This number is the same for all lanes.
            const std::int64_t left = steps - base;
            const int rounds = left < static_cast<std::int64_t>(team_.size()) * kBatchRow
                                   ? static_cast<int>((left + team_.size() - 1) / team_.size())
                                   : kBatchRow;
            const double s0 = static_cast<double>(m0) * step;
            double sum_re[kBatchRow] = {}, sum_im[kBatchRow] = {};
            for (std::int64_t i = 0; i < n; ++i) {
                const double g_re = m_.turn_re[i], g_im = m_.turn_im[i], weight = a[i];
                double f_re, f_im;
                node_phase_minus_one(s0 * (sign * y[i]), f_re, f_im);
                for (int j = 0; j < kBatchRow; ++j) {
                    if (j == rounds) break;
                    sum_re[j] += weight * f_re;
                    sum_im[j] += weight * f_im;
                    // f becomes f + g (1 + f). The rounding error is a small multiple of u |f|, even if |f| is small.
                    const double next_re = f_re + (g_re + (f_re * g_re - f_im * g_im));
                    f_im = f_im + (g_im + (f_re * g_im + f_im * g_re));
                    f_re = next_re;
                }
            }
            for (int j = 0; j < kBatchRow; ++j) {
                const std::int64_t m = m0 + static_cast<std::int64_t>(j) * team_.size();
                if (m <= steps) {
                    re[m] = scale * sum_re[j];
                    im[m] = scale * sum_im[j];
                }
            }
        }
        team_.sync();
    }

    // Returns an s such that no weight of a node (Moments in mgf_moments.hpp) overflows when divided by e^s. Returns 0
    // if no weight overflows anyway.
    TIGHTDP_HD_STAGE double choose_mgf_weight_shift(double c) const noexcept {
        if (bound_log_mgf_without_nodes(pair_, c) < kDirect) return 0;
        double peak = 0;
        const double b = pair_.contour_composition_weight_power(c);
        for (std::int64_t i = team_.lane(); i < n_; i += team_.size()) {
            const double u = (first_ + static_cast<double>(i)) * h_;
            peak = max_value(peak, b * m_.loss[i] - 0.5 * u * u);
        }
        peak = team_.largest(peak);
        return peak < kDirect ? 0 : peak;
    }

    // Computes the members of Moments (mgf_moments.hpp), or only the first four if not `certified`. node_sums.simd.cpp
    // does the same on the host.
    template <bool certified>
    TIGHTDP_HD_STAGE Moments sum_node_moments(double c, double shift, double* weights) const noexcept {
        const double b = pair_.contour_composition_weight_power(c), abs_b = std::fabs(b), inverse = 1 / pair_.sigma;
        const double scale = h_ * kInvSqrt2Pi;
        Moments out;
        for (std::int64_t i = team_.lane(); i < n_; i += team_.size()) {
            const double u = (first_ + static_cast<double>(i)) * h_, half = 0.5 * u * u;
            const double l = m_.loss[i], abs_l = std::fabs(l), x = b * l;
            const double w = scale * std::exp(-half), a = scale * std::exp(x - half - shift);
            const double term = std::fabs(x) < 0.5 ? w * std::expm1(x) : a - w;
            out.sum += a;
            out.minus_one += term;
            out.first += a * l;
            out.second += a * l * l;
            if constexpr (certified) {
                const double rt = m_.posterior[i] * (std::fabs(u) * inverse + 0.5 * inverse * inverse);
                const double eta = 13 * abs_l + 6 * rt;
                const double alpha = abs_b * (eta + 3 * abs_l) + 4 * half + (2 * shift + 10);
                out.abs_first += a * abs_l;
                out.alpha += a * alpha;
                out.alpha_first += a * alpha * abs_l;
                out.eta += a * eta;
                out.minus_one_err += std::fabs(term) * (3 * (4 * half + 14)) + a * (abs_b * (eta + 3 * abs_l));
            }
            if (weights) weights[i] = a;
        }
        for (double* total : {&out.sum, &out.minus_one, &out.first, &out.second}) *total = team_.sum(*total);
        if constexpr (certified)
            for (double* total : {&out.abs_first, &out.alpha, &out.alpha_first, &out.eta, &out.minus_one_err})
                *total = team_.sum(*total);
        if (weights) team_.sync();
        return out;
    }

    // Computes the loss L = ln W and the posterior weight r = q e^t / W at the n nodes u = (first + i) h. Here
    // W = 1 - q + q e^t and t = u/sigma - 1/(2 sigma^2).
    TIGHTDP_HD_STAGE void fill_nodes(double h, double first, std::int64_t n, double* loss,
                                     double* posterior) const noexcept {
        const double inverse = 1 / pair_.sigma;
        for (std::int64_t i = team_.lane(); i < n; i += team_.size()) {
            const double u = (first + static_cast<double>(i)) * h;
            const double t = (u - 0.5 * inverse) * inverse;
            loss[i] = sampled_loss(t, pair_.q);
            const double e = pair_.q * std::exp(t > 690 ? 690 : t);
            posterior[i] = t > 690 ? 1 : e / ((1 - pair_.q) + e);
        }
    }

    const Team& team_;
    BatchMemory& m_;
    const Pair pair_;
    const double count_;
    double h_ = 0, first_ = 0, margin_ = 0, s_most_ = 0;
    std::int64_t n_ = 0;
};

}  // namespace tightdp::contour
