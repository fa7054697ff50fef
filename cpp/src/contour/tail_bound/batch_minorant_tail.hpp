// Bounds on the decay of phi(s) = M(c + is) / M(c) for one setting (set of parameters) of a batch. The bounds come from
// cells and samples of a minorant, a density below that of the loss. They also come from the total variation of that
// density, the sum of its rises and falls. M is the moment generating function of the privacy loss of one step. The
// loops are the same as in minorant_tail.cpp, but with fixed memory. The formulas are in minorant.hpp
// (docs/theory/contour.md, section 3).
#pragma once

#include <cstdint>

#include "contour/mgf/batch_mgf.hpp"

namespace tightdp::contour {

template <class Team>
class BatchMinorantTail {
  public:
    TIGHTDP_HD BatchMinorantTail(const BatchMgf<Team>& mgf, double c, double resolution, bool with_samples) noexcept
        : p_(mgf), team_(mgf.team_), m_(mgf.m_) {
        const double sum = mgf.template sum_node_moments<false>(c, mgf.choose_mgf_weight_shift(c), m_.weights).sum;
        variation_ = bound_tail_variation(c, sum);
        build_minorant_cells(c, resolution, sum);
        if (with_samples && cells_ > 0) sample_minorant_decay();
    }

    // Returns a lower bound on -ln |phi(s)| for every s in [s_low, s_high], where s_high = inf is allowed. The
    // lanes (threads of the team) may pass different arguments.
    TIGHTDP_HD_STAGE double log_decay(double s_low, double s_high) const noexcept {
        const std::int64_t samples = spacing_ > 0 ? kBatchSamples : 0;
        return contour::minorant_log_decay({m_.cells, cells_, variation_, m_.sampled, samples, spacing_}, s_low,
                                           s_high);
    }

  private:
    // Returns a bound on the total variation of the density of the loss (contour.md, section 3.4).
    TIGHTDP_HD_STAGE double bound_tail_variation(double c, double sum) const noexcept {
        const double b = p_.pair_.contour_composition_weight_power(c) + 1, h = p_.h_,
                     last = p_.first_ + static_cast<double>(p_.n_ - 1);
        if (!minorant_nodes_cover_modes(b, 1 / p_.pair_.sigma, p_.first_ * h, m_.posterior[0], last * h,
                                        m_.posterior[p_.n_ - 1]))
            return HUGE_VAL;
        double peak = 0;
        for (std::int64_t i = team_.lane(); i < p_.n_; i += team_.size())
            peak = tail_density_peak(peak, m_.weights[i], m_.posterior[i]);
        return tail_density_variation(b, p_.pair_.sigma, h, team_.largest(peak), sum);
    }

    // Builds the cells of the minorant (contour.md, section 3.3). Cells without mass remain in the list, and they do
    // not affect log_decay().
    TIGHTDP_HD_STAGE void build_minorant_cells(double c, double resolution, double sum) noexcept {
        double from = static_cast<double>(p_.n_ - 1), to = 0;
        for (std::int64_t i = team_.lane(); i < p_.n_; i += team_.size())
            if (m_.weights[i] >= resolution * sum) {
                from = min_value(from, static_cast<double>(i));
                to = max_value(to, static_cast<double>(i));
            }
        from = team_.smallest(from);
        to = team_.largest(to);
        const double low = (p_.first_ + from - 1) * p_.h_, high = (p_.first_ + to + 1) * p_.h_;
        const double h = minorant_cell_step(p_.pair_.sigma, low, high, kBatchCells - 8);
        const double first = std::floor(low / h);
        const std::int64_t n = static_cast<std::int64_t>((high - low) / h) + 3;
        double *loss = m_.cell_at, *posterior = m_.cell_mass, *density = m_.cell_density;
        p_.fill_nodes(h, first, n, loss, posterior);
        const double b = p_.pair_.contour_composition_weight_power(c), shift = p_.choose_mgf_weight_shift(c);
        for (std::int64_t i = team_.lane(); i < n; i += team_.size()) {
            const double u = (first + static_cast<double>(i)) * h;
            density[i] = h * kInvSqrt2Pi * std::exp(b * loss[i] - 0.5 * u * u - shift);
        }
        team_.sync();
        cells_ = n - 1;
        for (std::int64_t i = team_.lane(); i + 1 < n; i += team_.size()) {
            const Cell cell =
                minorant_cell({loss[i], posterior[i], density[i]}, {loss[i + 1], posterior[i + 1], density[i + 1]},
                              h / p_.pair_.sigma, b, p_.pair_.is_contour_add(), bound_minorant_mass(sum));
            // The cells are intervals of ln W, where W is the likelihood ratio of the step (quadrature.hpp). The loss
            // for "add" is -ln W, so each cell is mirrored at 0, and the order of the cells is reversed.
            if (p_.pair_.is_contour_add())
                m_.cells[cells_ - 1 - i] = {cell.mass, -cell.left - cell.length, cell.length};
            else
                m_.cells[i] = cell;
        }
        team_.sync();
    }

    // Computes samples of the decay: bounds near multiples s of spacing_ (contour.md, section 3.5).
    TIGHTDP_HD_STAGE void sample_minorant_decay() noexcept {
        double total = 0, mean = 0, squares = 0, spread = 0;
        for (std::int64_t i = team_.lane(); i < cells_; i += team_.size()) {
            const Cell& cell = m_.cells[i];
            total += cell.mass;
            mean += cell.mass * (cell.left + 0.5 * cell.length);
            squares += cell.mass * cell.length * cell.length;
        }
        total = team_.sum(total);
        mean = team_.sum(mean) / total;
        squares = team_.sum(squares);
        for (std::int64_t i = team_.lane(); i < cells_; i += team_.size()) {
            m_.cell_at[i] = m_.cells[i].left + 0.5 * m_.cells[i].length - mean;
            m_.cell_mass[i] = m_.cells[i].mass;
            spread += m_.cell_mass[i] * std::fabs(m_.cell_at[i]);
        }
        spread = team_.sum(spread);
        if (!(spread > 0)) return;
        spacing_ = 0.1 / spread;
        p_.sum_node_phases(m_.cell_at, 1.0, m_.cell_mass, cells_, spacing_, kBatchSamples - 1, 1.0, m_.re, m_.im);
        for (std::int64_t m = team_.lane(); m < kBatchSamples; m += team_.size()) {
            const double s = static_cast<double>(m) * spacing_;
            const double modulus = m == 0 ? total : std::hypot(total + m_.re[m], m_.im[m]);
            m_.sampled[m] = minorant_sampled_decay(total, modulus, s, spacing_, squares, spread);
        }
        team_.sync();
    }

    const BatchMgf<Team>& p_;
    const Team& team_;
    BatchMemory& m_;
    std::int64_t cells_ = 0;
    double variation_ = HUGE_VAL, spacing_ = 0;
};

}  // namespace tightdp::contour
