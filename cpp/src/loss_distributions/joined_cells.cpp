// Privacy loss distributions that are made of two others. Joined is for samples of fixed size in which a record is
// replaced, by another record or by nothing. Labelled is for a mechanism that reveals which of two mechanisms it ran.
// See grid.md, section 6.2, and mixtures.md, sections 4 and 5.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "loss_distribution.hpp"
#include "tightdp/special/logaddexp.hpp"
#include "tightdp/special/normal.hpp"

namespace tightdp::grid {
namespace {

// A density that is equal to `right` at losses above zero. At losses below zero the density is the mirror image of
// `left`: for y > 0, the density at -y is e^{-y} times the density of `left` at y. A side that is null has no mass.
// Zero must be an edge of the cells, so every lattice of losses must have a point at zero. loss_distribution.hpp
// explains the masses s and t of a cell (CellBlock).
class Joined final : public Density {
  public:
    Joined(std::shared_ptr<const Density> right, std::shared_ptr<const Density> left)
        : right_density_(std::move(right)), left_density_(std::move(left)) {}

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        std::size_t left = 0;  // cells left of zero
        while (left < count && edges[left + 1] <= 0) ++left;
        for (std::size_t i = 0; i < count; ++i) out.put_loss_cell(i, {});
        if (left > 0 && left_density_) {
            double flipped[CellBlock::kCells + 1];
            for (std::size_t i = 0; i <= left; ++i) flipped[i] = -edges[left - i];
            CellBlock inner;
            left_density_->compute_loss_cells(flipped, left, inner);
            for (std::size_t i = 0; i < left; ++i) {
                const std::size_t j = left - 1 - i;
                const double w = edges[i + 1] - edges[i], mass = inner.s[j];
                // `lost` bounds the error of the difference, whose terms are both below w times the mass. If the
                // computed difference is not positive, t = `lost`.
                const double lost = (inner.rel[j] * 2 + 6 * u) * w * mass;
                const double difference = -std::expm1(-w) * inner.s[j] - std::exp(-w) * inner.t[j];
                const double t = difference > 0 ? difference : lost;
                const double rel = inner.rel[j] + 4 * u + (t > 0 ? lost / t : 1) + 2 * u * std::abs(edges[i + 1]);
                out.put_loss_cell(i, {mass - t, t, inner.log_scale[j] + edges[i + 1], rel, inner.bend[j] + 3 * w});
            }
            out.add_loss_cell_errors(inner);
        }
        if (left == count || !right_density_) return;
        CellBlock inner;
        right_density_->compute_loss_cells(edges + left, count - left, inner);
        for (std::size_t i = left; i < count; ++i) out.put_loss_cell(i, inner[i - left]);
        out.add_loss_cell_errors(inner);
    }

    Left measure_losses_below(double y) const override {
        if (y > 0) return {{0, 1}, {0, 1}};  // the trivial upper bound 1 on both masses
        if (!left_density_) return {{-kInfinity, 0}, {-kInfinity, 0}};
        const Right right = left_density_->measure_losses_above(-y);
        // The density left_density_ has the Q-mass s e^{y} and the P-mass s + t (loss_distribution.hpp) over [-y, inf).
        // The mirror image has the first as its P-mass and the second as its Q-mass.
        return {{right.s.log + y, right.s.rel + 4 * u * (1 - y)},
                {logaddexp(right.s.log, right.t.log), right.s.rel + right.t.rel + 16 * u}};
    }

    Right measure_losses_above(double y) const override {
        if (y < 0) return {{0, 1}, {0, 1}};
        if (!right_density_) return {{-kInfinity, 0}, {-kInfinity, 0}};
        return right_density_->measure_losses_above(y);
    }

    double largest_finite_loss() const override {
        return right_density_ ? std::max(0.0, right_density_->largest_finite_loss()) : 0;
    }

    std::vector<double> list_loss_sketch_edges() const override {
        std::vector<double> edges, left, right;
        if (left_density_) left = left_density_->list_loss_sketch_edges();
        if (right_density_) right = right_density_->list_loss_sketch_edges();
        for (auto y = left.rbegin(); y != left.rend() && *y > 0; ++y) edges.push_back(-*y);
        edges.push_back(0);
        for (const double y : right)
            if (y > 0) edges.push_back(y);
        return edges;
    }

  private:
    std::shared_ptr<const Density> right_density_, left_density_;
};

// The sum of two densities, each with its masses multiplied by a weight.
class Labelled final : public Density {
  public:
    Labelled(std::shared_ptr<const Density> one, double log_one, std::shared_ptr<const Density> other, double log_other,
             double rel)
        : first_density_(std::move(one)),
          second_density_(std::move(other)),
          log_first_weight_(log_one),
          log_second_weight_(log_other),
          label_weight_error_(rel) {}

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        CellBlock one, other;
        first_density_->compute_loss_cells(edges, count, one);
        second_density_->compute_loss_cells(edges, count, other);
        for (std::size_t i = 0; i < count; ++i) {
            const bool some = one.s[i] + one.t[i] > 0, more = other.s[i] + other.t[i] > 0;
            const double first = some ? log_first_weight_ + one.log_scale[i] : -kInfinity;
            const double second = more ? log_second_weight_ + other.log_scale[i] : -kInfinity;
            const double unit = std::max({first, second, -1e300});
            const double w = some ? std::exp(first - unit) : 0, v = more ? std::exp(second - unit) : 0;
            const double s = (some ? w * one.s[i] : 0) + (more ? v * other.s[i] : 0);
            const double t = (some ? w * one.t[i] : 0) + (more ? v * other.t[i] : 0);
            const double made = std::max(some ? one.rel[i] : 0, more ? other.rel[i] : 0);
            const double rel = some || more ? made + label_weight_error_ + u * (16 + 8 * std::abs(unit)) : 0;
            // The logarithm of a sum of two positive terms varies by no more than the logarithm of one of them.
            const double bend = some && more ? std::max(one.bend[i], other.bend[i]) : (some ? one : other).bend[i];
            out.put_loss_cell(i, {s, t, some || more ? unit : 0, rel, bend});
        }
        out.add_loss_cell_errors(one);
        out.add_loss_cell_errors(other);
    }

    Left measure_losses_below(double y) const override {
        const Left one = first_density_->measure_losses_below(y), other = second_density_->measure_losses_below(y);
        return {add_labelled_masses(one.p, other.p), add_labelled_masses(one.q, other.q)};
    }

    Right measure_losses_above(double y) const override {
        const Right one = first_density_->measure_losses_above(y), other = second_density_->measure_losses_above(y);
        return {add_labelled_masses(one.s, other.s), add_labelled_masses(one.t, other.t)};
    }

    double largest_finite_loss() const override {
        return std::max(first_density_->largest_finite_loss(), second_density_->largest_finite_loss());
    }

    std::vector<double> list_loss_sketch_edges() const override {
        std::vector<double> edges = first_density_->list_loss_sketch_edges(),
                            more = second_density_->list_loss_sketch_edges();
        edges.insert(edges.end(), more.begin(), more.end());
        return sort_loss_cell_edges(std::move(edges));
    }

  private:
    LogMass add_labelled_masses(const LogMass& one, const LogMass& other) const {
        const double log = logaddexp(log_first_weight_ + one.log, log_second_weight_ + other.log);
        return {log, std::max(one.rel, other.rel) + label_weight_error_ +
                         (std::isfinite(log) ? (16 + 8 * std::abs(log)) * u : 0)};
    }

    std::shared_ptr<const Density> first_density_, second_density_;
    double log_first_weight_, log_second_weight_, label_weight_error_;
};

// Returns the density at losses >= 0 of the pair P = (1-q) N(-mu) + q N(mu) and Q = (1-q) N(-mu) + q N(0). N(a) has the
// mean a and the standard deviation 1.
std::shared_ptr<const Density> make_opposed_density(double mu, double q) {
    return make_mixture_density({{mu, q, 0}, {0, 0, q}, {-mu, 1 - q, 1 - q}}, 0, 0, 2 * u);
}

}  // namespace

LossDistributionPtr make_replace_one_losses(const LossDistributionPtr& base, double q) {
    auto losses = std::make_shared<LossDistribution>();
    const LossDistributionPtr sampled = make_poisson_sampled_losses(base, q, false);
    double distance = base->infinity;  // total variation distance of the base's pair
    double even = 0;
    std::vector<Atom> right;
    for (std::size_t i = 0; i < base->atoms.size(); ++i) {
        const Atom& a = base->atoms[i];
        if (std::abs(a.loss) <= base->loss_slack) {
            even += std::exp(a.log_mass);
        } else if (a.loss > 0) {
            right.push_back(sampled->atoms[sampled->atoms.size() - base->atoms.size() + i]);
            distance -= std::exp(a.log_mass) * std::expm1(-a.loss);
        }
    }
    losses->total_rel = base->total_rel;
    losses->cut = base->cut;
    losses->mass_rel = base->mass_rel + 4 * u;
    if (base->density) {
        const Density::Right half = base->density->measure_losses_above(0);
        distance += std::exp(half.t.log);
        losses->mass_rel += half.t.rel;
        losses->density = std::make_shared<Joined>(sampled->density, sampled->density);
    }
    for (auto a = right.rbegin(); a != right.rend(); ++a)
        losses->atoms.push_back({-a->loss, a->log_mass - a->loss,
                                 a->rel + 4 * u * (1 + a->loss) + base->loss_slack * (1 + base->loss_slack)});
    const double middle = even + (1 - q) * distance;
    const double error = losses->mass_rel + (64 + 4.0 * base->atoms.size()) * u + 2 * base->loss_slack;
    if (middle > 0) losses->atoms.push_back({0, std::log(middle), error + 8 * u * std::abs(std::log(middle))});
    losses->atoms.insert(losses->atoms.end(), right.begin(), right.end());
    losses->infinity = losses->minus_infinity = q * base->infinity;
    losses->loss_slack = base->loss_slack + 16 * u * (right.empty() ? 0 : right.back().loss);
    // Joined needs a lattice point at zero, so the anchor stays 0 (LossDistribution::anchor). If there are exactly two
    // other atoms, their losses are -y and y. The step is then y, so that both losses are lattice points too.
    if (losses->atoms.size() == 3) losses->step = losses->atoms[2].loss;
    return losses;
}

LossDistributionPtr make_zeroed_out_losses(double mu, double q, bool add) {
    auto losses = std::make_shared<LossDistribution>();
    const auto drawn = make_opposed_density(mu, q);
    const auto alike = make_poisson_sampled_losses(make_gaussian_losses(mu), q, false)->density;
    losses->density = add ? std::make_shared<Joined>(alike, drawn) : std::make_shared<Joined>(drawn, alike);
    // The atom at 0 has the rest of the mass: (1 - q) times the probability of N(0) between -3/2 mu and mu/2.
    const double middle = 0.5 * (1 - q) * (std::erf(1.5 * mu * kInvSqrt2) + std::erf(0.5 * mu * kInvSqrt2));
    losses->atoms = {{0, std::log(middle), 32 * u}};
    return losses;
}

LossDistributionPtr make_zeroed_out_member_losses(double mu, double q, bool add) {
    constexpr std::size_t kIntervals = CellBlock::kCells;
    constexpr double kFar = 38;
    auto losses = std::make_shared<LossDistribution>();
    const auto drawn = make_opposed_density(mu, q);
    losses->density = add ? std::make_shared<Joined>(nullptr, drawn) : std::make_shared<Joined>(drawn, nullptr);
    // The loss at outputs below mu/2 is <= 0 and not monotone. These outputs are divided into kIntervals intervals, and
    // each interval becomes an atom.
    const auto gaussian_density = make_gaussian_losses(mu)->density;
    double z[kIntervals + 1], ahead[kIntervals + 1], behind[kIntervals + 1];
    for (std::size_t i = 0; i <= kIntervals; ++i) {
        const double share = static_cast<double>(i) / kIntervals;
        z[i] = 0.5 * mu * share - (kFar + mu) * (1 - share);
        ahead[i] = mu * (z[i] - 0.5 * mu);
        behind[i] = mu * (z[i] + 0.5 * mu);
    }
    CellBlock first, second;
    gaussian_density->compute_loss_cells(ahead, kIntervals, first);
    gaussian_density->compute_loss_cells(behind, kIntervals, second);
    double off = 0;
    for (std::size_t i = 0; i < kIntervals; ++i) {
        const double plus = std::log(first.s[i] + first.t[i]) + first.log_scale[i];
        const double none = std::log(second.s[i] + second.t[i]) + second.log_scale[i];
        const double minus = std::log(second.s[i]) + second.log_scale[i] - behind[i];
        const double p = logaddexp(std::log1p(-q) + minus, std::log(q) + plus);
        const double r = logaddexp(std::log1p(-q) + minus, std::log(q) + none);
        const double log_mass = add ? r : p, loss = add ? r - p : p - r;
        if (!(log_mass > -600 && std::isfinite(loss))) continue;
        const double rel = first.rel[i] + second.rel[i] +
                           u * (64 + 16 * (std::abs(p) + std::abs(r) + std::abs(behind[i]) + std::abs(ahead[i])));
        off = std::max(off, 2 * rel);
        losses->atoms.push_back({loss, log_mass, rel});
    }
    std::ranges::sort(losses->atoms, {}, &Atom::loss);
    losses->loss_slack = off;
    return losses;
}

LossDistributionPtr join_labelled_losses(const LossDistributionPtr& one, double share, double rest,
                                         const LossDistributionPtr& other, double rel) {
    auto losses = std::make_shared<LossDistribution>();
    const double first = std::log(share), second = std::log(rest);
    if (one->density && other->density)
        losses->density = std::make_shared<Labelled>(one->density, first, other->density, second, rel);
    else if (one->density || other->density)
        throw std::logic_error("laws of different kinds are not drawn with a label");
    const LossDistribution& heavier = share >= rest ? *one : *other;
    if (!losses->density) losses->anchor = heavier.anchor;
    for (const auto& [from, log] : {std::pair{one, first}, std::pair{other, second}})
        for (const Atom& a : from->atoms)
            losses->atoms.push_back({a.loss, a.log_mass + log, a.rel + rel + u * (8 + 4 * std::abs(a.log_mass + log))});
    std::ranges::sort(losses->atoms, {}, &Atom::loss);
    losses->infinity = share * one->infinity + rest * other->infinity;
    losses->minus_infinity = share * one->minus_infinity + rest * other->minus_infinity;
    losses->mass_rel = std::max(one->mass_rel, other->mass_rel) + rel + 4 * u;
    losses->total_rel = std::max(one->total_rel, other->total_rel) + rel;
    losses->loss_slack = std::max(one->loss_slack, other->loss_slack);
    losses->cut = one->cut || other->cut;
    return losses;
}

}  // namespace tightdp::grid
