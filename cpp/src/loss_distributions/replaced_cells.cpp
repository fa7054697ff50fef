// The Gaussian mechanism on a Poisson sample under "replace". Its dominating pair is P = (1-q) N(0) + q N(1) and
// Q = (1-q) N(0) + q N(-1), where N(a) has the mean a and the standard deviation sigma = 1/mu (replace.md, section 5).
//
// At the output z the loss is y = ln W(w) - ln W(-w), where w = z/sigma^2 and W(w) = 1 - q + q e^{w - mu^2/2}. The loss
// is an increasing and odd function of w. The masses of a cell are sums, with positive factors, of the masses of two
// Gaussian pairs. If the cell has an edge at w, the pair (N(1), N(0)) has an edge at the loss w - mu^2/2, and the pair
// (N(0), N(-1)) has an edge at the loss w + mu^2/2.
#include <algorithm>
#include <cmath>

#include "loss_distribution.hpp"
#include "tightdp/special/logaddexp.hpp"
#include "tightdp/special/sampled_loss.hpp"

namespace tightdp::grid {
namespace {

// asinh(x) and ln(2x) round to the same double for x >= e^kLarge.
constexpr double kLarge = 40;

class Replaced final : public Density {
  public:
    Replaced(std::shared_ptr<const Density> gaussian, double mu, double q)
        : gaussian_density_(std::move(gaussian)),
          half_(0.5 * mu * mu),
          mu_(mu),
          q_(q),
          log_q_(std::log(q)),
          log_odds_(half_ + std::log1p(-q) - log_q_) {}

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        double w[CellBlock::kCells + 1], first[CellBlock::kCells + 1], second[CellBlock::kCells + 1];
        double off = 0, steepest = 0;
        for (std::size_t i = 0; i <= count; ++i) {
            w[i] = replaced_output_at_loss(edges[i]);
            first[i] = w[i] - half_;
            second[i] = w[i] + half_;
            const double slope = replaced_posterior_weight(w[i]) + replaced_posterior_weight(-w[i]);
            steepest = std::max(steepest, slope);
            off = larger_loss_distribution_error(off, slope * bound_replaced_output_error(edges[i], w[i]));
        }
        CellBlock ahead, behind;
        gaussian_density_->compute_loss_cells(first, count, ahead);
        gaussian_density_->compute_loss_cells(second, count, behind);
        for (std::size_t i = 0; i < count; ++i) {
            const double back = replaced_posterior_weight(-w[i]);
            const double one = ahead.log_scale[i] + log_q_, two = behind.log_scale[i] + sampled_loss(w[i] - half_, q_);
            const double unit = ahead.t[i] > 0 ? std::max(one, two) : two;
            const double scale = std::exp(two - unit);
            const double s = scale * (behind.s[i] + behind.t[i] * (1 - back));
            const double t = scale * back * behind.t[i] + (ahead.t[i] > 0 ? std::exp(one - unit) * ahead.t[i] : 0);
            const double size = std::abs(w[i]) + half_ + std::abs(log_q_);
            const double rounding = u * (64 + 8 * (std::abs(one) + std::abs(two)) + 16 * size);
            const double rel = ahead.rel[i] + behind.rel[i] + rounding;
            // The derivative of ln(dQ/de^y) with respect to z/sigma is at most |z|/sigma + 4 mu.
            const double width = (w[i + 1] - w[i]) / mu_, far = std::max(std::abs(w[i]), std::abs(w[i + 1])) / mu_;
            out.put_loss_cell(i, {s, t, unit, rel, width * (far + 4 * mu_) * (1 + 1e-9)});
        }
        out.slack =
            larger_loss_distribution_error(out.slack, 1.5 * steepest * (ahead.slack + behind.slack) + 1.1 * off);
        out.work += ahead.work + behind.work;
    }

    Left measure_losses_below(double y) const override {
        const double w = replaced_output_at_loss(y);
        const Left one = gaussian_density_->measure_losses_below(w - half_),
                   other = gaussian_density_->measure_losses_below(w + half_);
        const double rest = std::log1p(-q_) + other.p.log;
        const double p = logaddexp(rest, log_q_ + one.p.log), q = logaddexp(rest, log_q_ + other.q.log);
        return {{p, std::max(one.p.rel, other.p.rel) + log_mass_rounding(p)},
                {q, std::max(other.p.rel, other.q.rel) + log_mass_rounding(q)}};
    }

    Right measure_losses_above(double y) const override {
        const double w = replaced_output_at_loss(y);
        const Right ahead = gaussian_density_->measure_losses_above(w - half_),
                    behind = gaussian_density_->measure_losses_above(w + half_);
        const double size = sampled_loss(w - half_, q_), back = replaced_posterior_weight(-w);
        const double s = size + logaddexp(behind.s.log, behind.t.log + std::log1p(-back));
        const double t = logaddexp(log_q_ + ahead.t.log, size + behind.t.log + std::log(back));
        const double rel = std::max({ahead.t.rel, behind.s.rel, behind.t.rel});
        return {{s, rel + log_mass_rounding(s) + log_mass_rounding(size)},
                {t, rel + log_mass_rounding(t) + log_mass_rounding(size) + log_mass_rounding(w)}};
    }

    double largest_finite_loss() const override { return HUGE_VAL; }

    std::vector<double> list_loss_sketch_edges() const override {
        std::vector<double> edges = gaussian_density_->list_loss_sketch_edges();
        for (double& y : edges) {
            const double w = y + half_;
            y = sampled_loss(w - half_, q_) - sampled_loss(-w - half_, q_);
        }
        // The loss is symmetric about 0, but the edges need not be. The mirror images -y of edges y > -edges[0] are
        // added, so that the edges reach as far below 0 as above.
        const std::size_t n = edges.size();
        for (std::size_t i = 0; i < n; ++i)
            if (edges[i] > -edges[0]) edges.push_back(-edges[i]);
        return sort_loss_cell_edges(std::move(edges));
    }

  private:
    // Returns w at the loss y: y/2 + asinh(e^{log_odds} sinh(y/2)).
    double replaced_output_at_loss(double y) const {
        const double half = 0.5 * std::abs(y), top = log_odds_ + half;
        const double rest =
            top > kLarge ? top + std::log(-std::expm1(-2 * half)) : std::asinh(std::exp(log_odds_) * std::sinh(half));
        // If y is tiny, `rest` may be far below kLarge although `top` is not, because sinh is nearly linear there.
        const double v =
            top > kLarge && rest < kLarge / 2 ? std::asinh(std::exp(log_odds_ + std::log(std::sinh(half)))) : rest;
        return std::copysign(half + (half > 0 ? v : 0), y);
    }

    // Bounds the error of replaced_output_at_loss(y). The bound allows each of the functions, and the argument of each
    // exponential, an error of four units in the last place.
    double bound_replaced_output_error(double y, double w) const {
        return u * (16 + 8 * (std::abs(log_odds_) + std::abs(w) + std::abs(y) + half_));
    }

    // Returns the posterior weight q e^{w - mu^2/2} / W(w).
    double replaced_posterior_weight(double w) const { return 1 / (1 + std::exp(log_odds_ - w)); }

    static double log_mass_rounding(double log) { return std::isfinite(log) ? (24 + 8 * std::abs(log)) * u : 0; }

    std::shared_ptr<const Density> gaussian_density_;
    double half_, mu_, q_, log_q_, log_odds_;
};

}  // namespace

LossDistributionPtr make_replaced_gaussian_losses(double mu, double q) {
    auto losses = std::make_shared<LossDistribution>();
    losses->density = std::make_shared<Replaced>(make_gaussian_losses(mu)->density, mu, q);
    return losses;
}

}  // namespace tightdp::grid
