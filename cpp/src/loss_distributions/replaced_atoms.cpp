// Privacy loss distributions of atoms for the relation "replace". Two kinds of mechanisms have them: pure and
// approximate differential privacy (replace.md, section 1), and integer or Laplace noise on a Poisson sample
// (replace.md, section 8).
#include <algorithm>
#include <cmath>
#include <utility>

#include "loss_distribution.hpp"
#include "runtime/compensated_sum.hpp"

namespace tightdp::grid {
namespace {

// log_replaced_atom_up() returns ln(1 - q + q e^y) for y >= 0, and log_replaced_atom_down() returns it for y <= 0. The
// relative error is at most 40u, where u = 2^-53. If y > kLarge, y and ln q may cancel in the result. The result then
// has a further absolute error of at most u (y + 16 |ln q| + 16). In all other sums, the terms have the same sign.
constexpr double kLarge = 200;
double log_replaced_atom_up(double y, double q) {
    return y > kLarge ? y + std::log(q + (1 - q) * std::exp(-y)) : std::log1p(q * std::expm1(y));
}
double log_replaced_atom_down(double y, double q) {
    const double less = -q * std::expm1(y);
    return less < 0.5 ? std::log1p(-less) : std::log((1 - q) + q * std::exp(y));
}

double log_replaced_atom(double y, double q) {
    return y > 0 ? log_replaced_atom_up(y, q) : log_replaced_atom_down(y, q);
}

// Returns the relative error of e^x, where x is a short sum of logarithms. All these logarithms have the same sign and
// errors of at most 4 units in the last place (grid.md, section 6.5).
double atom_mass_error(double x) {
    return (8 + 24 * std::abs(x)) * u;
}

// Logarithm of the smallest P-mass of an atom that is kept. The Q-mass of an atom that is left out is counted as mass
// where P vanishes.
constexpr double kLeastLog = -1020;
// Number of cells into which each interval of the length of the sensitivity is divided
// (make_replaced_laplace_member_losses).
constexpr double kCells = 512;

// Collects the atoms of P = (1-q) N(0) + q N(1) and Q = (1-q) N(0) + q N(-1), with ascending losses. N(a) is the
// distribution of the noise plus a times the sensitivity.
class MixedAtoms {
  public:
    explicit MixedAtoms(double q) : q_(q) {}

    // Adds an outcome. `none`, `plus` and `minus` are the logarithms of its mass under N(0), N(1) and N(-1). `ahead` is
    // plus - none, and `behind` is minus - none. `error` bounds the relative error of the three masses, without the
    // rounding errors of their logarithms.
    void add_mixed_atom(double none, double plus, double minus, double ahead, double behind, double error) {
        const double p = log_replaced_atom_mass(none, plus, ahead), q = log_replaced_atom_mass(none, minus, behind);
        farthest_ = std::max({farthest_, ahead, behind});
        if (p < kLeastLog) {
            beyond_ += std::exp(q);
            return;
        }
        found_.push_back(
            {log_replaced_atom(ahead, q_) - log_replaced_atom(behind, q_), p, error + (64 + 32 * std::abs(p)) * u});
    }

    LossDistributionPtr make_mixed_atom_losses(double anchor, bool cut) {
        double slack = 1024 * u * std::max(std::abs(found_.front().loss), std::abs(found_.back().loss));
        if (farthest_ > kLarge) slack += u * (8 * farthest_ + 16 * std::abs(std::log(q_)) + 16);
        const double hidden = std::min<double>(beyond_, 1);
        return make_atomic_losses(std::move(found_), 0, hidden, hidden > 0 ? -64 * kLeastLog * u : 0, slack, anchor, 0,
                                  0, cut);
    }

    double largest_atom_loss() const { return found_.back().loss; }

  private:
    double log_replaced_atom_mass(double none, double moved, double ratio) const {
        return ratio > 0 ? moved + std::log(q_ + (1 - q_) * std::exp(-ratio))
                         : none + log_replaced_atom_down(ratio, q_);
    }

    double q_, farthest_ = 0;
    std::vector<Atom> found_;
    CompensatedSum beyond_;
};

}  // namespace

LossDistributionPair make_replaced_approximate_dp_losses(double epsilon, double delta, double q) {
    // Let E = e^epsilon and s = (1 - delta) / (1 + E), as in replace.md, section 1. Then t is 1/E, and gap / (1 + t) is
    // s - delta.
    constexpr double kLeastShare = 1e-4, kLeastMass = 1e-290;
    const double t = std::exp(-epsilon), gap = t - delta * (1 + 2 * t), out = 1 - q;
    if (delta > 0 && !(gap > kLeastShare * t && t > kLeastMass)) {
        // `more` is at least delta, and so large that more (2 + E) >= 1. The pair of the class of all
        // (epsilon, more)-DP mechanisms has only the losses infinity and 0, and `all` is its mass at infinity. On a
        // sample, the privacy profile is at most q times the profile of this pair. This gives the upper distribution
        // of the result. The lower one is the distribution of removing a record.
        const double more = std::max(delta * (1 + 2 * kLeastShare), 1.001 * t);
        const double all = more < 0.5 ? -std::expm1(-epsilon) + 2 * more * t : 1;
        const LossDistributionPtr removed = make_approximate_dp_losses(epsilon, delta);
        return {make_approximate_dp_losses(0, std::min(q * all * (1 + 32 * u) + 0x1p-1074, 1.0)),
                q < 1 ? make_poisson_sampled_losses(removed, q, false) : removed};
    }
    // An interval of outputs, which are numbers in [0, 1], on which the loss is constant (replace.md, section 1).
    struct Layer {
        double loss, mass;
    };
    std::vector<Layer> right;
    double infinity = q * delta, slack = 0;
    if (epsilon > 0) {
        const double loss =
            q < 1 ? log_replaced_atom_up(epsilon, q) - log_replaced_atom_down(-epsilon, q) : 2 * epsilon;
        const double width = gap / (1 + t);
        right.push_back({loss, delta > 0 ? width * (out + q / t) : out * width + q / (1 + t)});
        if (q < 1 && epsilon > kLarge) slack = u * (epsilon + 16 * std::abs(std::log(q)) + 16);
    }
    if (delta > 0) {
        // Adds the layer of the outputs from 0 to delta. Let R be the distribution without the record, and let P and Q
        // be the two distributions with it, all without sampling. In this layer the density of P is E times that of R,
        // and Q has no mass. If q = 1, the loss is infinite.
        const double mass = delta * (out + q / t);
        if (q < 1)
            right.push_back({std::log1p(q / out / t), mass});
        else
            infinity += mass;
    }
    if (!right.empty()) slack += 64 * u * right.back().loss;
    const double zero = epsilon > 0 ? std::log((2 * delta * t - std::expm1(-epsilon)) / (1 + t)) +
                                          (q < 1 ? log_replaced_atom_down(-epsilon, q) : -epsilon)
                                    : std::log1p(-2 * delta);
    const double rel = (64 + (delta > 0 ? 32 * t / gap : 0)) * u;
    std::vector<Atom> found{{0, zero, rel + atom_mass_error(zero)}};
    for (const auto& [loss, mass] : right) {
        const double log_mass = std::log(mass), error = rel + atom_mass_error(log_mass) + kLeastMass / mass;
        found.push_back({loss, log_mass, error});
        found.push_back({-loss, log_mass - loss, error + 2 * slack});
    }
    std::ranges::sort(found, {}, &Atom::loss);
    const double step = right.empty() ? 0 : right.front().loss;
    const LossDistributionPtr losses =
        make_atomic_losses(std::move(found), infinity, infinity, 64 * u, slack, step, step);
    return {losses, losses};
}

LossDistributionPtr make_replaced_discrete_gaussian_losses(double sigma, double sensitivity, double q) {
    const double reach = std::ceil(kKeptDeviations * sigma) + 1;
    const auto log_weight = [=](double n) { return -0.5 * (n / sigma) * (n / sigma); };
    CompensatedSum total;
    for (double n = -reach; n <= reach; ++n) total += std::exp(log_weight(n));
    const double log_total = std::log(total), error = (16 + 12 * std::abs(log_total)) * u;
    const double unit = sensitivity / sigma / sigma;
    MixedAtoms found(q);
    // Adds the outputs that are at most `reach` away from one of the three means. All other outputs together have a
    // mass below e^-1000 (kKeptDeviations in loss_distribution.hpp).
    double next = -kInfinity;
    for (const double mean : {-sensitivity, 0.0, sensitivity}) {
        for (double n = std::max(mean - reach, next); n <= mean + reach; ++n)
            found.add_mixed_atom(log_weight(n) - log_total, log_weight(n - sensitivity) - log_total,
                                 log_weight(n + sensitivity) - log_total, unit * (n - 0.5 * sensitivity),
                                 -unit * (n + 0.5 * sensitivity), error);
        next = mean + reach + 1;
    }
    return found.make_mixed_atom_losses(0, true);
}

LossDistributionPtr make_replaced_discrete_laplace_losses(double scale, double sensitivity, double q) {
    const double rate = 1 / scale, most = sensitivity / scale;
    const double log_end = -std::log1p(std::exp(-rate));             // ln P[noise >= 0]
    const double log_mode = std::log(-std::expm1(-rate)) + log_end;  // ln P[noise = 0]
    MixedAtoms found(q);
    found.add_mixed_atom(log_end - most, log_end - 2 * most, log_end, -most, most, 64 * u);
    for (double n = 1 - sensitivity; n < sensitivity; ++n) {
        const auto log_mass = [=](double at) { return log_mode - std::abs(at) / scale; };
        const auto ratio = [=](double at) { return std::clamp((2 * at - sensitivity) / scale, -most, most); };
        found.add_mixed_atom(log_mass(n), log_mass(n - sensitivity), log_mass(n + sensitivity), ratio(n), ratio(-n),
                             64 * u);
    }
    found.add_mixed_atom(log_end - most, log_end, log_end - 2 * most, most, -most, 64 * u);
    return found.make_mixed_atom_losses(found.largest_atom_loss(), false);
}

LossDistributionPtr make_replaced_laplace_member_losses(double mu, double q) {
    const double rate = mu / kCells, log_end = -std::log(2.0);
    const double log_first = std::log(-std::expm1(-rate)) + log_end;  // ln P[noise in a cell that begins at 0]
    MixedAtoms found(q);
    found.add_mixed_atom(log_end - mu, log_end - 2 * mu, log_end, -mu, mu, 64 * u);
    for (double left = -kCells; left < kCells; ++left) {
        const auto log_mass = [=](double at) { return log_first - rate * (at >= 0 ? at : -at - 1); };
        const auto ratio = [=](double twice) { return std::clamp(rate * (twice - kCells), -mu, mu); };
        found.add_mixed_atom(log_mass(left), log_mass(left - kCells), log_mass(left + kCells), ratio(2 * left + 1),
                             ratio(-2 * left - 1), 64 * u);
    }
    found.add_mixed_atom(log_end - mu, log_end, log_end - 2 * mu, mu, -mu, 64 * u);
    return found.make_mixed_atom_losses(found.largest_atom_loss(), false);
}

}  // namespace tightdp::grid
