// How fast the tilted law of a batch's setting lets |M(c + is) / M(c)| decay: cells, samples, total variation.
// The twin of Decay and Part::build_decay in contour/part.cpp; docs/theory/contour.md, section 3.
#pragma once

#include "batch_part.hpp"

namespace tightdp::contour {

template <class Team>
class BatchDecay {
  public:
    TIGHTDP_HD BatchDecay(const BatchPart<Team>& part, double c, double resolution, bool with_samples) noexcept
        : p_(part), team_(part.team_), m_(part.m_) {
        const double sum = part.template moments<false>(c, part.shift(c), m_.weights).sum;
        variation_ = variation(c, sum);
        build_cells(c, resolution, sum);
        if (with_samples && cells_ > 0) build_samples();
    }

    // Lower bound on -ln |phi(s)| for every s in [s_low, s_high]; s_high = inf is allowed. Lanes may ask differently.
    TIGHTDP_HD_STAGE double log_decay(double s_low, double s_high) const noexcept {
        double least = decay(m_.cells, cells_, s_low, s_high);
        const double last = spacing_ > 0 ? std::floor(s_high / spacing_ + 0.5) : HUGE_VAL;
        if (last < static_cast<double>(kBatchSamples)) {
            double inside = 1;
            for (long m = static_cast<long>(s_low / spacing_ + 0.5); m <= static_cast<long>(last); ++m)
                inside = smaller(inside, m_.sampled[m]);
            least = larger(least, inside);
        }
        return larger(least, std::log(s_low / variation_));
    }

  private:
    // Section 3.4.
    TIGHTDP_HD double slope(long i, double b) const noexcept {
        const double inverse = 1 / p_.sigma_;
        return -(p_.first_ + static_cast<double>(i)) * p_.h_ - inverse + b * m_.posterior[i] * inverse;
    }

    TIGHTDP_HD_STAGE double variation(double c, double sum) const noexcept {
        const double b = p_.beta(c) + 1, inverse = 1 / p_.sigma_, h = p_.h_;
        const bool unimodal = b <= 0;
        const bool covered = unimodal ? slope(0, b) > 0 && slope(p_.n_ - 1, b) < 0 : p_.first_ * h < -inverse;
        if (!covered) return HUGE_VAL;
        double peak = 0;
        for (long i = team_.lane(); i < p_.n_; i += team_.size()) {
            const double density = m_.weights[i] / m_.posterior[i];
            // A posterior weight that underflowed makes the bound void, not small.
            peak = density >= 0 ? larger(peak, density) : HUGE_VAL;
        }
        peak = team_.largest(peak);
        const double bend = 1 + std::fabs(b) * 0.25 * inverse * inverse;
        return (unimodal ? 2 : 4) * peak * p_.sigma_ / h * std::exp(bend * h * h / 8) / (sum * (1 - 1e-3));
    }

    // Section 3.3. Cells of no mass stay where they are: decay() passes over them.
    TIGHTDP_HD_STAGE void build_cells(double c, double resolution, double sum) noexcept {
        double from = static_cast<double>(p_.n_ - 1), to = 0;
        for (long i = team_.lane(); i < p_.n_; i += team_.size())
            if (m_.weights[i] >= resolution * sum) {
                from = smaller(from, static_cast<double>(i));
                to = larger(to, static_cast<double>(i));
            }
        from = team_.smallest(from);
        to = team_.largest(to);
        const double low = (p_.first_ + from - 1) * p_.h_, high = (p_.first_ + to + 1) * p_.h_;
        const double h = larger(smaller(0.15, 0.2 * p_.sigma_), (high - low) / (kBatchCells - 8));
        const double first = std::floor(low / h);
        const long n = static_cast<long>((high - low) / h) + 3;
        double *loss = m_.cell_at, *posterior = m_.cell_mass, *density = m_.cell_density;
        p_.fill_nodes(h, first, n, loss, posterior);
        const double b = p_.beta(c), shift = p_.shift(c);
        for (long i = team_.lane(); i < n; i += team_.size()) {
            const double u = (first + static_cast<double>(i)) * h;
            density[i] = h * 0.39894228040143267794 * std::exp(b * loss[i] - 0.5 * u * u - shift);
        }
        team_.sync();
        const double total = sum * (1 + 1e-3);
        cells_ = n - 1;
        for (long i = team_.lane(); i + 1 < n; i += team_.size()) {
            const double length = h / p_.sigma_ * posterior[i];
            double right = density[i + 1];
            if (!p_.add_) right *= larger(0.0, 1 - b * (loss[i + 1] - loss[i] - length) * (1 + 1e-9) - 1e-9);
            double mass = smaller(density[i], right) * posterior[i] / posterior[i + 1] / total;
            if (!(mass > 0) || !(length > 0)) mass = 0;
            // Under "add" the loss is -ln W: mirrored, so that cells run left to right.
            if (p_.add_) m_.cells[cells_ - 1 - i] = {mass, -loss[i] - length, length};
            else m_.cells[i] = {mass, loss[i], length};
        }
        team_.sync();
    }

    // Section 3.5.
    TIGHTDP_HD_STAGE void build_samples() noexcept {
        double total = 0, mean = 0, squares = 0, spread = 0;
        for (long i = team_.lane(); i < cells_; i += team_.size()) {
            const Cell& cell = m_.cells[i];
            total += cell.mass;
            mean += cell.mass * (cell.left + 0.5 * cell.length);
            squares += cell.mass * cell.length * cell.length;
        }
        total = team_.sum(total);
        mean = team_.sum(mean) / total;
        squares = team_.sum(squares);
        for (long i = team_.lane(); i < cells_; i += team_.size()) {
            m_.cell_at[i] = m_.cells[i].left + 0.5 * m_.cells[i].length - mean;
            m_.cell_mass[i] = m_.cells[i].mass;
            spread += m_.cell_mass[i] * std::fabs(m_.cell_at[i]);
        }
        spread = team_.sum(spread);
        if (!(spread > 0)) return;
        spacing_ = 0.1 / spread;
        p_.sums_of_turns(m_.cell_at, 1.0, m_.cell_mass, cells_, spacing_, kBatchSamples - 1, 1.0, m_.re, m_.im);
        for (long m = team_.lane(); m < kBatchSamples; m += team_.size()) {
            const double s = static_cast<double>(m) * spacing_;
            const double modulus = m == 0 ? total : std::hypot(total + m_.re[m], m_.im[m]);
            // 1e-9: the rounding of these sums (contour.md 3.5).
            const double bound = total - modulus - (s * s / 24 + 0.06 * s * spacing_) * squares -
                                 0.5 * spacing_ * spread - 1e-9;
            m_.sampled[m] = larger(0.0, bound);
        }
        team_.sync();
    }

    const BatchPart<Team>& p_;
    const Team& team_;
    BatchMemory& m_;
    long cells_ = 0;
    double variation_ = HUGE_VAL, spacing_ = 0;
};

}  // namespace tightdp::contour
