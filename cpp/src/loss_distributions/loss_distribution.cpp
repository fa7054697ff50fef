// Privacy loss distributions with an exponential density or with atoms only, and the sketches of all distributions. A
// sketch is a list of lumps of mass (Sketch).
#include "loss_distribution.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

std::atomic<std::uint64_t> last_distribution_id{0};

// ln of the mass below which a lump is left out of a sketch, because its mass would underflow.
constexpr double kLeastLog = -744;
// Largest number of groups of atoms in a sketch. This number is large enough for any estimate, and small enough to
// compute some hundred cumulants in a few milliseconds.
constexpr std::size_t kMostLumps = 2048;

// The density dP = kappa e^{y/2} dy on [low, high]. Laplace noise has this density between two atoms, and a mechanism
// of bounded range has it without atoms (grid.md, section 6.4). Let m = 1 - e^{-w/2} for a cell of width w. The masses
// s and t of its CellBlock are 2 m (1 - m) and 2 m^2, each times kappa e^{right edge / 2}.
class Exponential final : public Density {
  public:
    Exponential(double low, double high, double log_kappa) : low_(low), high_(high), log_kappa_(log_kappa) {}

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        for (std::size_t i = 0; i < count; ++i)
            out.put_loss_cell(i, compute_exponential_loss_cell(edges[i], edges[i + 1]));
        out.slack = larger_loss_distribution_error(out.slack, loss_edge_tolerance());
    }

    Left measure_losses_below(double y) const override {
        const double w = std::min(y, high_) - low_;
        if (!(w > 0)) return {{-kInfinity, 0}, {-kInfinity, 0}};
        const double m = std::log(-2 * std::expm1(-0.5 * w)) + log_kappa_;
        const double p = m + 0.5 * (low_ + w), q = m - 0.5 * low_;
        return {{p, log_mass_rounding(p)}, {q, log_mass_rounding(q)}};
    }

    Right measure_losses_above(double y) const override {
        const Cell p = compute_exponential_loss_cell(y, kInfinity);
        const auto log_of = [&](double x) { return x > 0 ? std::log(x) + p.log_scale : -kInfinity; };
        const double s = log_of(p.s), t = log_of(p.t);
        return {{s, p.rel + log_mass_rounding(s)}, {t, p.rel + log_mass_rounding(t)}};
    }

    double largest_finite_loss() const override { return high_ + loss_edge_tolerance(); }

    std::vector<double> list_loss_sketch_edges() const override {
        std::vector<double> edges;
        // Sketches are estimates, so any numbers of edges are allowed. A tilt t multiplies the mass at a loss y by
        // e^{ty}, so large tilts give weight to losses near the right end only. Near that end, every second edge halves
        // the distance to the end, until doubles no longer tell edges apart.
        constexpr int kEven = 256, kTop = 100;
        for (int i = 0; i < kEven; ++i) edges.push_back(low_ + (high_ - low_) * i / kEven);
        for (int i = 0; i <= kTop; ++i) edges.push_back(high_ - (high_ - low_) * std::exp2(-0.5 * i));
        edges.push_back(high_);
        return sort_loss_cell_edges(std::move(edges));
    }

  private:
    Cell compute_exponential_loss_cell(double a, double b) const {
        // An edge within loss_edge_tolerance() of an end of the support is moved to that end.
        const double left = a < low_ + loss_edge_tolerance() ? low_ : a,
                     right = b > high_ - loss_edge_tolerance() ? high_ : b;
        const double w = right - left;
        if (!(w > 0)) return {};
        const bool before = low_ - a > loss_edge_tolerance(), beyond = b - high_ > loss_edge_tolerance();
        const double m = -std::expm1(-0.5 * w);
        double s = 2 * m * std::exp(-0.5 * w), t = 2 * m * m;
        if (before) {
            const double e = std::exp(a - left);
            t = -std::expm1(a - left) * 2 * m + e * t;
            s *= e;
        }
        // Inside the support, dQ/de^y is proportional to e^{-3y/2}.
        const double bend = before || beyond ? kInfinity : 1.5 * w;
        return {s, t, 0.5 * right + log_kappa_, log_mass_rounding(0.5 * right) + log_mass_rounding(log_kappa_) + 16 * u,
                bend};
    }

    // Returns the distance from an end of the support within which edges are moved to the end.
    double loss_edge_tolerance() const { return 8 * u * std::max(std::abs(low_), std::abs(high_)); }

    double log_mass_rounding(double log) const { return std::isfinite(log) ? (8 + 4 * std::abs(log)) * u : 0; }

    double low_, high_, log_kappa_;
};

Sketch make_loss_distribution_sketch(const LossDistribution& losses) {
    struct Lump {
        double loss, log_mass;
    };
    std::vector<Lump> lumps;
    if (losses.density) {
        const std::vector<double> edges = losses.density->list_loss_sketch_edges();
        CellBlock block;
        for (std::size_t from = 0; from + 1 < edges.size(); from += CellBlock::kCells) {
            const std::size_t count = std::min(CellBlock::kCells, edges.size() - 1 - from);
            losses.density->compute_loss_cells(edges.data() + from, count, block);
            for (std::size_t i = 0; i < count; ++i) {
                const double log_mass = std::log(block.s[i] + block.t[i]) + block.log_scale[i];
                if (!(log_mass > kLeastLog)) continue;
                // The mass of a cell becomes two equal lumps around the mean loss, with the variance of a uniform
                // density. One lump would be too rough, because its errors add up over the steps. The mean loss is
                // estimated from the mean of e^{-y}, by comparison with a uniform density.
                const double w = edges[from + i + 1] - edges[from + i];
                const double skew = std::log1p(block.t[i] / block.s[i]) + std::log(-std::expm1(-w) / w);
                const double mean = std::isfinite(skew) ? std::clamp(0.5 * w + skew, 0.0, w) : 0.5 * w;
                const double apart = std::min({mean, w - mean, w / std::sqrt(12.0)});
                for (const double offset : {mean - apart, mean + apart})
                    lumps.push_back({edges[from + i] + offset, log_mass - std::log(2.0)});
            }
        }
    }
    // If there are many atoms, each group of consecutive atoms becomes two lumps at its first and its last loss, with
    // the mass and the mean of the group.
    const std::size_t group = losses.atoms.size() / kMostLumps + 1;
    for (std::size_t from = 0; from < losses.atoms.size(); from += group) {
        const std::size_t to = std::min(from + group, losses.atoms.size());
        const double left = losses.atoms[from].loss, right = losses.atoms[to - 1].loss;
        double top = -kInfinity, mass = 0, sum = 0;
        for (std::size_t i = from; i < to; ++i) top = std::max(top, losses.atoms[i].log_mass);
        if (!(top > kLeastLog)) continue;
        for (std::size_t i = from; i < to; ++i) {
            const double m = std::exp(losses.atoms[i].log_mass - top);
            mass += m;
            sum += m * (losses.atoms[i].loss - left);
        }
        const double share = right > left ? std::clamp(sum / (mass * (right - left)), 0.0, 1.0) : 1;
        if (share < 1) lumps.push_back({left, top + std::log(mass * (1 - share))});
        if (share > 0) lumps.push_back({right, top + std::log(mass * share)});
    }
    std::ranges::sort(lumps, {}, &Lump::loss);
    Sketch s;
    s.size = lumps.size();
    const std::size_t padded = (s.size + 7) / 8 * 8;
    s.loss.assign(padded, s.size ? lumps.back().loss : 0);
    s.log_mass.assign(padded, -HUGE_VAL);
    s.mass.assign(padded, 0);
    s.above.assign(padded, 0);
    double above = 0;
    for (std::size_t i = s.size; i-- > 0;) {
        s.loss[i] = lumps[i].loss;
        s.log_mass[i] = lumps[i].log_mass;
        s.mass[i] = std::exp(lumps[i].log_mass);
        s.above[i] = above += s.mass[i];
    }
    return s;
}

}  // namespace

std::vector<double> sort_loss_cell_edges(std::vector<double> edges) {
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    return edges;
}

std::uint64_t LossDistribution::take_distribution_id() {
    return ++last_distribution_id;
}

const Sketch& LossDistribution::get_loss_sketch() const {
    if (const Sketch* const found = sketch_.load()) return *found;
    const work::Aside once;
    auto made = std::make_unique<const Sketch>(make_loss_distribution_sketch(*this));
    const Sketch* found = nullptr;
    return sketch_.compare_exchange_strong(found, made.get()) ? *made.release() : *found;
}

double LossDistribution::largest_finite_loss() const {
    double top = density ? density->largest_finite_loss() : -kInfinity;
    if (!atoms.empty()) top = std::max(top, atoms.back().loss + loss_slack);
    return top + 4 * u * std::abs(top);
}

LossDistributionPtr make_laplace_losses(double mu) {
    auto losses = std::make_shared<LossDistribution>();
    losses->density = std::make_shared<Exponential>(-mu, mu, -std::log(4.0) - 0.5 * mu);
    const double rel = (8 + 2 * mu) * u;
    losses->atoms = {{-mu, -std::log(2.0) - mu, rel}, {mu, -std::log(2.0), rel}};
    losses->loss_slack = 2 * u * mu;
    losses->anchor = mu;
    losses->step = 2 * mu;
    return losses;
}

LossDistributionPtr make_range_losses(double eta) {
    auto losses = std::make_shared<LossDistribution>();
    losses->density =
        std::make_shared<Exponential>(-eta, eta, -std::log(2.0) - 0.5 * eta - std::log(-std::expm1(-eta)));
    losses->anchor = eta;
    losses->step = 2 * eta;
    return losses;
}

LossDistributionPtr make_atomic_losses(std::vector<Atom> atoms, double infinity, double minus_infinity, double mass_rel,
                                       double loss_slack, double anchor, double step, double total_rel, bool cut) {
    auto losses = std::make_shared<LossDistribution>();
    losses->atoms = std::move(atoms);
    losses->infinity = infinity;
    losses->minus_infinity = minus_infinity;
    losses->mass_rel = mass_rel;
    losses->total_rel = total_rel;
    losses->loss_slack = loss_slack;
    losses->cut = cut;
    losses->anchor = anchor;
    losses->step = step;
    return losses;
}

}  // namespace tightdp::grid
