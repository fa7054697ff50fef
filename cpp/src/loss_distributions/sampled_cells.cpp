// Privacy loss distributions that are computed from others: Poisson sampling, and reversal (docs/theory/grid.md,
// section 6.1).
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cell_loops.simd.hpp"
#include "loss_distribution.hpp"
#include "tightdp/special/logaddexp.hpp"
#include "tightdp/special/sampled_loss.hpp"

namespace tightdp::grid {
namespace {

// Returns the relative error of a mass that comes from rounding its logarithm.
double log_mass_rounding(double log) {
    return std::isfinite(log) ? (16 + 4 * std::abs(log)) * u : 0;
}

// The edges x of cells after sampling, and for each edge the loss y of the base distribution that becomes x. The base
// distribution belongs to the mechanism without sampling. `ratio` is e^{sign y}, where sign is 1 for removing a record
// and -1 for adding one. Rounding y has the same effect as changing x by at most `slack`. The y of an edge is the same,
// to the last bit, whether the edge is computed alone or in a block. If there were two versions of y, the mass between
// them would be lost.
struct BaseEdges {
    alignas(64) double x[CellBlock::kCells + 8], y[CellBlock::kCells + 8], ratio[CellBlock::kCells + 8],
        slack[CellBlock::kCells + 8];

    BaseEdges(const double* edges, std::size_t count, double q, double sign) {
        const std::size_t padded = (count + 8) / 8 * 8;
        for (std::size_t i = 0; i < padded; ++i) x[i] = edges[std::min(i, count)];
        TIGHTDP_SELECT_SIMD(find_poisson_loss_edges)(q, sign, x, padded, y, ratio, slack);
    }
};

// The density of a mechanism on a Poisson sample.
class Sampled : public Density {
  public:
    Sampled(std::shared_ptr<const Density> base, double q) : base_(std::move(base)), q_(q) {}

  protected:
    // Returns the edges of the base distribution's sketch (Density::list_loss_sketch_edges), each mapped to the loss
    // after sampling. `sign` has the same meaning as in BaseEdges.
    std::vector<double> map_loss_sketch_edges(double sign) const {
        std::vector<double> edges = base_->list_loss_sketch_edges();
        for (double& y : edges) y = sign * sampled_loss(sign * y, q_);
        edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
        return edges;
    }

    std::shared_ptr<const Density> base_;
    double q_;
};

// The pair ((1-q) Q + q P, Q) for removing a record. A loss y of (P, Q) becomes x = log(1 - q + q e^y). The Q-mass
// (loss_distribution.hpp) of a cell stays the same, and its mass t (CellBlock) is multiplied by q.
class Remove final : public Sampled {
  public:
    using Sampled::Sampled;

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        const BaseEdges made(edges, count, q_, 1.0);
        const double *const x = made.x, *const y = made.y, *const ratio = made.ratio;
        std::size_t below = 0;  // number of edges up to log(1 - q), below which there is no mass
        while (below <= count && y[below] == -kInfinity) ++below;
        const std::size_t first = below == 0 ? 0 : below - 1;
        for (std::size_t i = 0; i < std::min(first, count); ++i) out.put_loss_cell(i, {});
        if (below > count) return;
        if (below < count) {
            CellBlock inner;
            base_->compute_loss_cells(y + below, count - below, inner);
            for (std::size_t i = below; i < count; ++i) {
                const std::size_t j = i - below;
                out.put_loss_cell(i, {inner.s[j] * (q_ + (1 - q_) / ratio[i]), inner.t[j] * q_, inner.log_scale[j],
                                      inner.rel[j] + (6 + 2 * std::abs(y[i])) * u, inner.bend[j]});
            }
            out.add_loss_cell_errors(inner);
        }
        if (below > 0) {  // the cell [x[first], x[below]), which contains log(1 - q)
            const Left left = base_->measure_losses_below(y[below]);
            const double scale = std::max({left.p.log, left.q.log, -1e300});
            const double p = std::exp(left.p.log - scale), q = std::exp(left.q.log - scale);
            out.put_loss_cell(first, {std::exp(x[first]) * q, q_ * p + std::max(0.0, 1 - q_ - std::exp(x[first])) * q,
                                      scale, std::max(left.p.rel, left.q.rel) + 16 * u, kInfinity});
            // The rounding error of 1 - q - e^x has the same effect as an error of the edge by 4 u = 2^-51.
            out.slack = larger_loss_distribution_error(out.slack, 4 * u);
        }
        for (std::size_t i = first; i <= count; ++i) out.slack = larger_loss_distribution_error(out.slack, made.slack[i]);
    }

    Left measure_losses_below(double x) const override {
        const double y = BaseEdges(&x, 0, q_, 1).y[0];
        if (!(y > -kInfinity)) return {{-kInfinity, 0}, {-kInfinity, 0}};
        const Left left = base_->measure_losses_below(y);
        const double p = logaddexp(std::log1p(-q_) + left.q.log, std::log(q_) + left.p.log);
        return {{p, std::max(left.p.rel, left.q.rel) + log_mass_rounding(p)}, left.q};
    }

    Right measure_losses_above(double x) const override {
        const BaseEdges edge(&x, 0, q_, 1);
        const double y = edge.y[0], ratio = edge.ratio[0];
        if (!(y > -kInfinity)) return {{0, 1}, {0, 1}};
        const Right right = base_->measure_losses_above(y);
        const double s = right.s.log + std::log(q_ + (1 - q_) / ratio), t = right.t.log + std::log(q_);
        return {{s, right.s.rel + log_mass_rounding(s)}, {t, right.t.rel + log_mass_rounding(t)}};
    }

    double largest_finite_loss() const override {
        const double y = base_->largest_finite_loss();
        const double x = sampled_loss(y, q_);
        return x + 8 * u * (std::abs(x) + q_ * std::abs(y) + std::abs(std::log(q_)) * (y > 700));
    }

    std::vector<double> list_loss_sketch_edges() const override { return map_loss_sketch_edges(1); }
};

// The pair (P, (1-q) P + q Q) for adding a record. A loss y of (P, Q) becomes x = -log(1 - q + q e^{-y}). The P-mass of
// a cell stays the same, and its mass t (CellBlock) is multiplied by q e^{x - y} = 1 - (1-q) e^x.
class Add final : public Sampled {
  public:
    using Sampled::Sampled;

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        const BaseEdges made(edges, count, q_, -1.0);
        const double *const x = made.x, *const y = made.y, *const ratio = made.ratio;
        std::size_t inside = 0;  // number of edges below -log(1 - q), beyond which there is no mass
        while (inside <= count && y[inside] < kInfinity) ++inside;
        if (inside > 1) {
            CellBlock inner;
            base_->compute_loss_cells(y, inside - 1, inner);
            for (std::size_t i = 0; i + 1 < inside; ++i) {
                const double left = (1 - q_) / (1 - q_ + q_ * ratio[i]);
                out.put_loss_cell(i, {inner.s[i] + inner.t[i] * left, inner.t[i] * sampled_cell_mass_share(ratio[i]),
                                      inner.log_scale[i], inner.rel[i] + (8 + 2 * std::abs(y[i])) * u,
                                      inner.bend[i] + 3 * (y[i + 1] - y[i]) + 3 * (x[i + 1] - x[i])});
            }
            out.add_loss_cell_errors(inner);
        }
        if (inside > 0 && inside <= count) {  // the cell that ends beyond -log(1 - q)
            const std::size_t last = inside - 1;
            const Right right = base_->measure_losses_above(y[last]);
            const double scale = std::max({right.s.log, right.t.log, -1e300});
            const double s = std::exp(right.s.log - scale), t = std::exp(right.t.log - scale);
            out.put_loss_cell(
                last, {s + t * ((1 - q_) / (1 - q_ + q_ * ratio[last])), t * sampled_cell_mass_share(ratio[last]),
                       scale, std::max(right.s.rel, right.t.rel) + (16 + 2 * std::abs(y[last])) * u, kInfinity});
        }
        for (std::size_t i = inside; i < count; ++i) out.put_loss_cell(i, {});
        for (std::size_t i = 0; i < std::min(inside, count + 1); ++i)
            out.slack = larger_loss_distribution_error(out.slack, made.slack[i]);
    }

    Left measure_losses_below(double x) const override {
        const double y = BaseEdges(&x, 0, q_, -1).y[0];
        if (!(y < kInfinity)) return {{0, 1}, {0, 1}};  // the trivial upper bound 1 on both masses
        const Left left = base_->measure_losses_below(y);
        const double q = logaddexp(std::log1p(-q_) + left.p.log, std::log(q_) + left.q.log);
        return {left.p, {q, std::max(left.p.rel, left.q.rel) + log_mass_rounding(q)}};
    }

    Right measure_losses_above(double x) const override {
        const BaseEdges edge(&x, 0, q_, -1);
        const double y = edge.y[0], ratio = edge.ratio[0];
        if (!(y < kInfinity)) return {{-kInfinity, 0}, {-kInfinity, 0}};
        const Right right = base_->measure_losses_above(y);
        const double share = sampled_cell_mass_share(ratio);
        const double t = right.t.log + std::log(share), s = logaddexp(right.s.log, right.t.log + std::log1p(-share));
        return {{s, right.s.rel + right.t.rel + log_mass_rounding(s)}, {t, right.t.rel + log_mass_rounding(t)}};
    }

    double largest_finite_loss() const override {
        const double edge = -std::log1p(-q_), y = base_->largest_finite_loss();  // each is an upper bound on the loss
        const double most = std::min(edge + 8 * u * edge, y);
        if (!std::isfinite(y)) return most;
        const double mapped = -sampled_loss(-y, q_);
        return std::min(most, mapped + u * (32 * std::abs(mapped) + 8 * q_ * std::abs(y)));
    }

    std::vector<double> list_loss_sketch_edges() const override { return map_loss_sketch_edges(-1); }

  private:
    // Returns q ratio / (1 - q + q ratio). `ratio` may be infinite.
    double sampled_cell_mass_share(double ratio) const { return 1 / (1 + (1 - q_) / (q_ * ratio)); }
};

// Returns the relative error of p e^{-y} if the error of y is at most `slack`.
double shifted_atom_mass_error(double slack) {
    return std::expm1(slack) * (1 + 8 * u);
}

// Returns the atom of the pair ((1-q) Q + q P, Q) for an atom of (P, Q) with mass p and loss y. The new mass is
// q p + (1-q) p e^{-y}. `slack` bounds the error of y.
Atom make_removed_atom(const Atom& a, double q, double slack) {
    const double log_mass = logaddexp(std::log(q) + a.log_mass, std::log1p(-q) + a.log_mass - a.loss);
    return {sampled_loss(a.loss, q), log_mass,
            a.rel + (8 + 4 * (std::abs(log_mass) + std::abs(a.loss))) * u + shifted_atom_mass_error(slack)};
}

// Returns the atom of the reversed pair (Q, P) for an atom of (P, Q).
Atom mirror_loss_atom(const Atom& a, double slack) {
    return {-a.loss, a.log_mass - a.loss, a.rel + 4 * u * (1 + std::abs(a.loss)) + shifted_atom_mass_error(slack)};
}

// A mass at infinity below kFaint is stored as kFaint with a relative error of 1.
constexpr double kFaint = 1e-307;

double find_largest_atom_loss(const std::vector<Atom>& atoms) {
    return atoms.empty() ? 0 : std::max(std::abs(atoms.front().loss), std::abs(atoms.back().loss));
}

// Sets the anchor to the loss of the heaviest atom. If there are exactly two atoms, sets the step to their distance.
void anchor_loss_atoms(LossDistribution& losses) {
    if (losses.atoms.empty()) return;
    const auto heavier = [](const Atom& a, const Atom& b) { return a.log_mass < b.log_mass; };
    losses.anchor = std::max_element(losses.atoms.begin(), losses.atoms.end(), heavier)->loss;
    if (losses.atoms.size() == 2) losses.step = losses.atoms[1].loss - losses.atoms[0].loss;
}

}  // namespace

LossDistributionPtr make_poisson_sampled_losses(const LossDistributionPtr& base, double q, bool add) {
    auto losses = std::make_shared<LossDistribution>();
    losses->total_rel = base->total_rel;
    losses->mass_rel = base->mass_rel + 4 * u;
    losses->cut = base->cut;
    if (base->density) {
        if (add)
            losses->density = std::make_shared<Add>(base->density, q);
        else
            losses->density = std::make_shared<Remove>(base->density, q);
    }
    const double edge = add ? -std::log1p(-q) : std::log1p(-q);  // loss at which one of P and Q vanishes
    if (add) {
        for (const Atom& a : base->atoms) losses->atoms.push_back({-sampled_loss(-a.loss, q), a.log_mass, a.rel});
        if (base->infinity > 0) {
            const double log_mass = std::log(base->infinity);
            losses->atoms.push_back({edge, log_mass, base->mass_rel + log_mass_rounding(log_mass)});
        }
        losses->minus_infinity = q * base->minus_infinity;
    } else {
        if (base->minus_infinity > 0) {
            const double whole = std::log(base->minus_infinity), share = std::log1p(-q);
            losses->atoms.push_back(
                {edge, whole + share, base->mass_rel + log_mass_rounding(whole) + log_mass_rounding(share)});
        }
        for (const Atom& a : base->atoms) losses->atoms.push_back(make_removed_atom(a, q, base->loss_slack));
        losses->infinity = q * base->infinity;
        if (base->infinity > 0 && losses->infinity < kFaint) {  // may underflow
            losses->infinity = kFaint;
            losses->mass_rel = 1;
        }
    }
    // The map from y to x has a slope of at most 1, so it does not enlarge loss_slack. The second term is for the
    // rounding errors of log1p and expm1.
    losses->loss_slack =
        base->loss_slack +
        16 * u * std::max(find_largest_atom_loss(losses->atoms), q * find_largest_atom_loss(base->atoms));
    anchor_loss_atoms(*losses);
    return losses;
}

LossDistributionPtr make_reversed_losses(const LossDistributionPtr& base) {
    if (base->density) throw std::logic_error("only laws of atoms are reversed");
    auto losses = std::make_shared<LossDistribution>();
    for (auto a = base->atoms.rbegin(); a != base->atoms.rend(); ++a)
        losses->atoms.push_back(mirror_loss_atom(*a, base->loss_slack));
    losses->infinity = base->minus_infinity;
    losses->minus_infinity = base->infinity;
    losses->total_rel = base->total_rel;
    losses->mass_rel = base->mass_rel;
    losses->cut = base->cut;
    losses->loss_slack = base->loss_slack;
    losses->anchor = -base->anchor;
    losses->step = base->step;
    return losses;
}

}  // namespace tightdp::grid
