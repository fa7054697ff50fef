// Privacy loss distributions that consist of atoms: pure and approximate differential privacy, randomised response, and
// discrete noise (docs/theory/grid.md, section 6.5, which derives the rounding errors).
#include <algorithm>
#include <cmath>
#include <utility>

#include "loss_distribution.hpp"
#include "runtime/compensated_sum.hpp"

namespace tightdp::grid {
namespace {

// Returns a bound on the relative error of e^x, where x is a short sum of logarithms. All of these logarithms have the
// same sign and are right to 4 units in the last place (grid.md, section 6.5).
double atom_mass_error(double x) {
    return (8 + 24 * std::abs(x)) * u;
}

// If a probability p is below kFaint, log1p(1/p) and log(1/p) round to the same double, and 1/p may overflow.
constexpr double kFaint = 1e-200;

}  // namespace

LossDistributionPtr make_approximate_dp_losses(double epsilon, double delta) {
    if (delta == 1) return make_atomic_losses({}, 1, 1, 0, 0, 0, 0);
    const double kept = std::log1p(-delta);
    if (epsilon == 0) return make_atomic_losses({{0, kept, atom_mass_error(kept)}}, delta, delta, 0, 0, 0, 0);
    const double right = kept - std::log1p(std::exp(-epsilon)), left = right - epsilon;
    return make_atomic_losses({{-epsilon, left, atom_mass_error(left)}, {epsilon, right, atom_mass_error(right)}},
                              delta, delta, 0, 0, epsilon, 2 * epsilon);
}

LossDistributionPtr make_randomized_response_losses(double p, double buckets) {
    const double truth = std::log((1 - p) + p / buckets), other = std::log(p) - std::log(buckets);
    const double loss = p > kFaint ? std::log1p((1 - p) * buckets / p) : -other;
    std::vector<Atom> found{{-loss, other, atom_mass_error(other)}};
    if (buckets > 2) {
        const double rest = other + std::log(buckets - 2);
        found.push_back({0, rest, (8 + 24 * (std::abs(other) + std::log(buckets))) * u});
    }
    found.push_back({loss, truth, atom_mass_error(truth)});
    const Atom& heaviest = *std::ranges::max_element(found, {}, &Atom::log_mass);
    const double anchor = heaviest.loss;
    return make_atomic_losses(std::move(found), 0, 0, 0, 16 * u * loss, anchor, buckets > 2 ? loss : 2 * loss);
}

LossDistributionPtr make_discrete_gaussian_losses(double sigma, double sensitivity) {
    const double reach = std::ceil(kKeptDeviations * sigma) + 1, step = sensitivity / sigma / sigma;
    std::vector<Atom> found;
    found.reserve(static_cast<std::size_t>(2 * reach + 1));
    CompensatedSum total;
    for (double n = -reach; n <= reach; ++n) {
        const double exponent = -0.5 * (n / sigma) * (n / sigma);
        total += std::exp(exponent);
        found.push_back({(n + 0.5 * sensitivity) * step, exponent, 0});
    }
    const double log_total = std::log(total);
    for (Atom& a : found) {
        a.rel = (16 + 8 * std::abs(a.log_mass) + 12 * std::abs(log_total)) * u;
        a.log_mass -= log_total;
    }
    // Q is P moved to the left by `sensitivity`. The Q-mass left of the atoms of P is kept, because Poisson sampling
    // mixes Q into P.
    CompensatedSum beyond, error;
    for (std::size_t i = 0; i < found.size() && static_cast<double>(i) < sensitivity; ++i) {
        const double mass = std::exp(found[i].log_mass);
        beyond += mass;
        error += mass * found[i].rel;
    }
    const double hidden = std::min<double>(beyond, 1);
    const double slack = 8 * u * std::max(std::abs(found.front().loss), std::abs(found.back().loss));
    const double anchor = found[static_cast<std::size_t>(reach)].loss;
    return make_atomic_losses(std::move(found), 0, hidden, hidden > 0 ? error / hidden + 16 * u : 0, slack, anchor,
                              step, 0, true);
}

// The loss of an output n is (2n - sensitivity)/scale for 0 <= n <= sensitivity, and constant outside.
LossDistributionPtr make_discrete_laplace_losses(double scale, double sensitivity) {
    const double rate = 1 / scale, most = sensitivity / scale;
    const double log_end = -std::log1p(std::exp(-rate));             // ln P[noise >= 0]
    const double log_mode = std::log(-std::expm1(-rate)) + log_end;  // ln P[noise = 0]
    const auto rel = [](double log_mass) { return (48 + 16 * std::abs(log_mass)) * u; };
    std::vector<Atom> found{{-most, log_end - most, rel(log_end - most)}};
    found.reserve(static_cast<std::size_t>(sensitivity) + 1);
    for (double n = 1; n < sensitivity; ++n) {
        const double log_mass = log_mode - (sensitivity - n) / scale;
        found.push_back({(2 * n - sensitivity) / scale, log_mass, rel(log_mass)});
    }
    found.push_back({most, log_end, rel(log_end)});
    return make_atomic_losses(std::move(found), 0, 0, 0, 8 * u * most, most, 2 * (sensitivity > 1 ? rate : most));
}

}  // namespace tightdp::grid
