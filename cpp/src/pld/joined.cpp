// Privacy loss distributions that are made of two others. Joined is for samples of fixed size in which a record is
// replaced, by another record or by nothing. Labelled is for a mechanism that reveals which of two mechanisms it ran.
// See grid.md, section 6.2, and mixtures.md, sections 4 and 5.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "law.hpp"
#include "tightdp/special/logaddexp.hpp"
#include "tightdp/special/normal.hpp"

namespace tightdp::grid {
namespace {

// A density that is equal to `right` at losses above zero. At losses below zero the density is the mirror image of
// `left`: for y > 0, the density at -y is e^{-y} times the density of `left` at y. A side that is null has no mass.
// Every lattice must have a point at zero. law.hpp explains the masses s and t of a cell (CellBlock).
class Joined final : public Density {
  public:
    Joined(std::shared_ptr<const Density> right, std::shared_ptr<const Density> left)
        : right_(std::move(right)), left_(std::move(left)) {}

    void cells(const double* edges, std::size_t count, CellBlock& out) const override {
        std::size_t left = 0;  // cells left of zero
        while (left < count && edges[left + 1] <= 0) ++left;
        for (std::size_t i = 0; i < count; ++i) out.put(i, {});
        if (left > 0 && left_) {
            double flipped[CellBlock::kCells + 1];
            for (std::size_t i = 0; i <= left; ++i) flipped[i] = -edges[left - i];
            CellBlock inner;
            left_->cells(flipped, left, inner);
            for (std::size_t i = 0; i < left; ++i) {
                const std::size_t j = left - 1 - i;
                const double w = edges[i + 1] - edges[i], mass = inner.s[j];
                // `lost` bounds the error of the difference, whose terms are both below w times the mass. If the
                // computed difference is not positive, t = `lost`.
                const double lost = (inner.rel[j] * 2 + 6 * u) * w * mass;
                const double difference = -std::expm1(-w) * inner.s[j] - std::exp(-w) * inner.t[j];
                const double t = difference > 0 ? difference : lost;
                const double rel = inner.rel[j] + 4 * u + (t > 0 ? lost / t : 1) + 2 * u * std::abs(edges[i + 1]);
                out.put(i, {mass - t, t, inner.log_scale[j] + edges[i + 1], rel, inner.bend[j] + 3 * w});
            }
            out.add_errors(inner);
        }
        if (left == count || !right_) return;
        CellBlock inner;
        right_->cells(edges + left, count - left, inner);
        for (std::size_t i = left; i < count; ++i) out.put(i, inner[i - left]);
        out.add_errors(inner);
    }

    Left left_of(double y) const override {
        if (y > 0) return {{0, 1}, {0, 1}};  // the trivial upper bound 1 on both masses
        if (!left_) return {{-kInfinity, 0}, {-kInfinity, 0}};
        const Right right = left_->right_of(-y);
        // The density left_ has the Q-mass s e^{y} and the P-mass s + t (law.hpp) over [-y, inf). The mirror image has
        // the first as its P-mass and the second as its Q-mass.
        return {{right.s.log + y, right.s.rel + 4 * u * (1 - y)},
                {logaddexp(right.s.log, right.t.log), right.s.rel + right.t.rel + 16 * u}};
    }

    Right right_of(double y) const override {
        if (y < 0) return {{0, 1}, {0, 1}};
        if (!right_) return {{-kInfinity, 0}, {-kInfinity, 0}};
        return right_->right_of(y);
    }

    double top() const override { return right_ ? std::max(0.0, right_->top()) : 0; }

    std::vector<double> sketch() const override {
        std::vector<double> edges, left, right;
        if (left_) left = left_->sketch();
        if (right_) right = right_->sketch();
        for (auto y = left.rbegin(); y != left.rend() && *y > 0; ++y) edges.push_back(-*y);
        edges.push_back(0);
        for (const double y : right)
            if (y > 0) edges.push_back(y);
        return edges;
    }

  private:
    std::shared_ptr<const Density> right_, left_;
};

// The sum of two densities, each with its masses multiplied by a weight.
class Labelled final : public Density {
  public:
    Labelled(std::shared_ptr<const Density> one, double log_one, std::shared_ptr<const Density> other, double log_other,
             double rel)
        : one_(std::move(one)), other_(std::move(other)), log_one_(log_one), log_other_(log_other), rel_(rel) {}

    void cells(const double* edges, std::size_t count, CellBlock& out) const override {
        CellBlock one, other;
        one_->cells(edges, count, one);
        other_->cells(edges, count, other);
        for (std::size_t i = 0; i < count; ++i) {
            const bool some = one.s[i] + one.t[i] > 0, more = other.s[i] + other.t[i] > 0;
            const double first = some ? log_one_ + one.log_scale[i] : -kInfinity;
            const double second = more ? log_other_ + other.log_scale[i] : -kInfinity;
            const double unit = std::max({first, second, -1e300});
            const double w = some ? std::exp(first - unit) : 0, v = more ? std::exp(second - unit) : 0;
            const double s = (some ? w * one.s[i] : 0) + (more ? v * other.s[i] : 0);
            const double t = (some ? w * one.t[i] : 0) + (more ? v * other.t[i] : 0);
            const double made = std::max(some ? one.rel[i] : 0, more ? other.rel[i] : 0);
            const double rel = some || more ? made + rel_ + u * (16 + 8 * std::abs(unit)) : 0;
            // The logarithm of a sum of two positive terms varies by no more than the logarithm of one of them.
            const double bend = some && more ? std::max(one.bend[i], other.bend[i]) : (some ? one : other).bend[i];
            out.put(i, {s, t, some || more ? unit : 0, rel, bend});
        }
        out.add_errors(one);
        out.add_errors(other);
    }

    Left left_of(double y) const override {
        const Left one = one_->left_of(y), other = other_->left_of(y);
        return {sum(one.p, other.p), sum(one.q, other.q)};
    }

    Right right_of(double y) const override {
        const Right one = one_->right_of(y), other = other_->right_of(y);
        return {sum(one.s, other.s), sum(one.t, other.t)};
    }

    double top() const override { return std::max(one_->top(), other_->top()); }

    std::vector<double> sketch() const override {
        std::vector<double> edges = one_->sketch(), more = other_->sketch();
        edges.insert(edges.end(), more.begin(), more.end());
        return ascending(std::move(edges));
    }

  private:
    LogMass sum(const LogMass& one, const LogMass& other) const {
        const double log = logaddexp(log_one_ + one.log, log_other_ + other.log);
        return {log, std::max(one.rel, other.rel) + rel_ + (std::isfinite(log) ? (16 + 8 * std::abs(log)) * u : 0)};
    }

    std::shared_ptr<const Density> one_, other_;
    double log_one_, log_other_, rel_;
};

// Returns the density at losses >= 0 of the pair P = (1-q) N(-mu) + q N(mu) and Q = (1-q) N(-mu) + q N(0). N(a) has the
// mean a and the standard deviation 1.
std::shared_ptr<const Density> opposed(double mu, double q) {
    return mixture({{mu, q, 0}, {0, 0, q}, {-mu, 1 - q, 1 - q}}, 0, 0, 2 * u);
}

}  // namespace

LawPtr replace_one(const LawPtr& base, double q) {
    auto law = std::make_shared<Law>();
    const LawPtr sampled = poisson(base, q, false);
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
    law->total_rel = base->total_rel;
    law->cut = base->cut;
    law->mass_rel = base->mass_rel + 4 * u;
    if (base->density) {
        const Density::Right half = base->density->right_of(0);
        distance += std::exp(half.t.log);
        law->mass_rel += half.t.rel;
        law->density = std::make_shared<Joined>(sampled->density, sampled->density);
    }
    for (auto a = right.rbegin(); a != right.rend(); ++a)
        law->atoms.push_back({-a->loss, a->log_mass - a->loss,
                              a->rel + 4 * u * (1 + a->loss) + base->loss_slack * (1 + base->loss_slack)});
    const double middle = even + (1 - q) * distance;
    const double error = law->mass_rel + (64 + 4.0 * base->atoms.size()) * u + 2 * base->loss_slack;
    if (middle > 0) law->atoms.push_back({0, std::log(middle), error + 8 * u * std::abs(std::log(middle))});
    law->atoms.insert(law->atoms.end(), right.begin(), right.end());
    law->infinity = law->minus_infinity = q * base->infinity;
    law->loss_slack = base->loss_slack + 16 * u * (right.empty() ? 0 : right.back().loss);
    // Joined needs a lattice point at zero, which is the anchor. If there are exactly two other atoms, their losses are
    // -y and y. The step is then y, so that both losses are lattice points too.
    if (law->atoms.size() == 3) law->step = law->atoms[2].loss;
    return law;
}

LawPtr zeroed_out(double mu, double q, bool add) {
    auto law = std::make_shared<Law>();
    const auto drawn = opposed(mu, q);
    const auto alike = poisson(gaussian(mu), q, false)->density;
    law->density = add ? std::make_shared<Joined>(alike, drawn) : std::make_shared<Joined>(drawn, alike);
    // The atom at 0 has the rest of the mass: (1 - q) times the probability of N(0) between -3/2 mu and mu/2.
    const double middle = 0.5 * (1 - q) * (std::erf(1.5 * mu * kInvSqrt2) + std::erf(0.5 * mu * kInvSqrt2));
    law->atoms = {{0, std::log(middle), 32 * u}};
    return law;
}

LawPtr zeroed_out_member(double mu, double q, bool add) {
    constexpr std::size_t kIntervals = CellBlock::kCells;
    constexpr double kFar = 38;
    auto law = std::make_shared<Law>();
    const auto drawn = opposed(mu, q);
    law->density = add ? std::make_shared<Joined>(nullptr, drawn) : std::make_shared<Joined>(drawn, nullptr);
    // The loss at outputs below mu/2 is <= 0 and not monotone. These outputs are divided into kIntervals intervals, and
    // each interval becomes an atom.
    const auto gaussian_density = gaussian(mu)->density;
    double z[kIntervals + 1], ahead[kIntervals + 1], behind[kIntervals + 1];
    for (std::size_t i = 0; i <= kIntervals; ++i) {
        const double share = static_cast<double>(i) / kIntervals;
        z[i] = 0.5 * mu * share - (kFar + mu) * (1 - share);
        ahead[i] = mu * (z[i] - 0.5 * mu);
        behind[i] = mu * (z[i] + 0.5 * mu);
    }
    CellBlock first, second;
    gaussian_density->cells(ahead, kIntervals, first);
    gaussian_density->cells(behind, kIntervals, second);
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
        law->atoms.push_back({loss, log_mass, rel});
    }
    std::ranges::sort(law->atoms, {}, &Atom::loss);
    law->loss_slack = off;
    return law;
}

LawPtr labelled(const LawPtr& one, double share, double rest, const LawPtr& other, double rel) {
    auto law = std::make_shared<Law>();
    const double first = std::log(share), second = std::log(rest);
    if (one->density && other->density)
        law->density = std::make_shared<Labelled>(one->density, first, other->density, second, rel);
    else if (one->density || other->density)
        throw std::logic_error("laws of different kinds are not drawn with a label");
    const Law& heavier = share >= rest ? *one : *other;
    if (!law->density) law->anchor = heavier.anchor;
    for (const auto& [from, log] : {std::pair{one, first}, std::pair{other, second}})
        for (const Atom& a : from->atoms)
            law->atoms.push_back({a.loss, a.log_mass + log, a.rel + rel + u * (8 + 4 * std::abs(a.log_mass + log))});
    std::ranges::sort(law->atoms, {}, &Atom::loss);
    law->infinity = share * one->infinity + rest * other->infinity;
    law->minus_infinity = share * one->minus_infinity + rest * other->minus_infinity;
    law->mass_rel = std::max(one->mass_rel, other->mass_rel) + rel + 4 * u;
    law->total_rel = std::max(one->total_rel, other->total_rel) + rel;
    law->loss_slack = std::max(one->loss_slack, other->loss_slack);
    law->cut = one->cut || other->cut;
    return law;
}

}  // namespace tightdp::grid
