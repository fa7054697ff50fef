// The distributions of prv/single_losses.hpp. Statements and proofs are in docs/theory/prv.md, sections 2 and 4.
#include <algorithm>
#include <numbers>
#include <vector>

#include "cell_mass.hpp"
#include "edges.simd.hpp"
#include "tightdp/special/log_ndtri.hpp"
#include "tightdp/special/normal.hpp"
#include "tightdp/special/sampled_loss.hpp"

namespace tightdp::prv {
namespace {

constexpr double u = kUnitRoundoff;
constexpr double kMillsAtZero = 1.2533141373155003;  // sqrt(pi/2), where Mills' ratio is largest

template <class... F>
struct Overload : F... {
    using F::operator()...;
};

// Returns a z with 1 - Phi(z) <= tail, where Phi is the standard normal distribution function. This z is slightly
// larger than the smallest one.
double prv_tail_deviations(double tail) {
    return -log_ndtri(std::log(tail)) * (1 + 1e-10) + 1e-10;
}

// Returns the relative error of a computed tail at z standard deviations: z^2 u for the exponent -z^2/2, and 26 u for
// the rest.
double prv_tail_error(double z) {
    return (26 + z * z) * u;
}

// --- Supports

Support prv_support_of(const GaussianLaw& law, double tail) {
    const double z = prv_tail_deviations(0.5 * tail), middle = 0.5 * law.mu * law.mu;
    const double low = middle - law.mu * z, high = middle + law.mu * z;
    return {low, high, tail, tail * (std::max(-low, high) + law.mu)};
}

Support prv_support_of(const LaplaceLaw& law, double) {
    return {-law.mu, law.mu, 0, 0};
}

Support prv_support_of(const PureLaw& law, double) {
    return {-law.eps, law.eps, 0, 0};
}

double prv_sampled_loss(const SampledLaw& law, double z) {  // z = x/sigma
    return sampled_loss(z / law.sigma - 0.5 / (law.sigma * law.sigma), law.q);
}

Support prv_support_of(const SampledLaw& law, double tail) {
    const double half = 0.5 * tail, shift = 1 / law.sigma, far = prv_tail_deviations(half);
    double right = far;  // right end of the range of x (SampledLaw), in units of sigma
    if (!law.add) {
        // Bisects for a z with (1-q) G(z + 1/sigma) + q G(z) <= half, where G = 1 - Phi. Here z is the distance from
        // the centre of the shifted component in units of sigma. The condition holds at `high`.
        double low = -shift, high = far;
        for (int i = 0; i < 40; ++i) {
            const double z = 0.5 * (low + high);
            const double beyond = (1 - law.q) * ndtr(-z - shift) + law.q * ndtr(-z);
            (beyond * (1 + 1e-10) <= half ? high : low) = z;
        }
        right = shift + high;
    }
    const double low = prv_sampled_loss(law, -far), high = prv_sampled_loss(law, right);
    // The loss is a 1/sigma^2-Lipschitz function of x. The integral of x - edge over a normal tail of mass p beyond an
    // edge is at most p sigma (2 + d). Here d is the distance, in units of sigma, by which the centre lies beyond the
    // edge.
    const double inside = std::max(0.0, shift - right);
    const double moment = tail * (std::max(-low, high) + shift * (2 + inside));
    return law.add ? Support{-high, -low, tail, moment} : Support{low, high, tail, moment};
}

// --- Means

Mean prv_mean_of(const GaussianLaw& law) {
    const double m = 0.5 * law.mu * law.mu;
    return {m, m * (2 * law.spread + 4 * u)};
}

Mean prv_mean_of(const LaplaceLaw& law) {
    const double m = law.mu + std::expm1(-law.mu);
    return {m, 8 * u * law.mu};
}

Mean prv_mean_of(const PureLaw& law) {
    const double m = law.eps * std::tanh(0.5 * law.eps);
    return {m, 16 * u * m};
}

// Computes the mean by the trapezoid rule over z = x/sigma (prv.md, Lemma 3). The integrand is analytic in the strip
// |Im z| <= pi sigma / 2. The error of the rule is computed for the strip |Im z| <= `strip`. There, e^{strip^2/2} times
// `height` bounds the integral of the integrand's modulus along a line parallel to the real axis.
Mean prv_mean_of(const SampledLaw& law) {
    using std::numbers::pi;
    const double shift = 1 / law.sigma, height = -std::log1p(-law.q) + 0.5 * pi + 0.5 * shift * shift + shift;
    constexpr double reach = 11;  // the normal density is 2e-27 there
    const double strip = std::min(0.5 * pi * law.sigma, 9.0);
    const double step = 2 * pi * strip / (45 + 0.5 * strip * strip + std::log(height));
    const double right = reach + (law.add ? 0 : shift);
    const auto first = static_cast<std::int64_t>(std::floor(-reach / step)),
               last = static_cast<std::int64_t>(std::ceil(right / step));
    double sum = 0, magnitude = 0;
    for (std::int64_t i = first; i <= last; ++i) {
        const double z = static_cast<double>(i) * step, loss = prv_sampled_loss(law, z);
        const double weight =
            law.add ? -normal_density(z) : (1 - law.q) * normal_density(z) + law.q * normal_density(z - shift);
        sum += weight * loss;
        magnitude += std::fabs(weight * loss);
    }
    const double rule = 2 * height * std::exp(0.5 * strip * strip - 2 * pi * strip / step) * 1.01;
    const double range = 8 * normal_density(reach) * (height + shift * (reach + shift) + shift);
    const double terms = static_cast<double>(last - first + 1);
    return {sum * step, rule + range + (terms + 128) * u * magnitude * step};
}

// --- Cells

// Computes the probabilities of cells from the values at edges (edges.simd.hpp).
void subtract_prv_edges(std::vector<double>& edges, EdgesLeft left, double w0, double w1, std::int64_t count,
                        double* out) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = edges[i + 1] - edges[i];
    // The last edge before the centre of a component has the left tail as its value, and the next edge has minus the
    // right tail. So the difference of these two values lacks the component's weight.
    if (left.base > 0 && left.base <= count) out[left.base - 1] += w0;
    if (w1 > 0 && left.shifted > 0 && left.shifted <= count) out[left.shifted - 1] += w1;
    for (std::int64_t i = 0; i < count; ++i) out[i] = std::max(out[i], 0.0);
}

void prv_cells_of(const GaussianLaw& law, double h, long long first, std::int64_t count, double* out) {
    std::vector<double> edges(static_cast<std::size_t>(count + 9));  // count + 1, rounded up to a multiple of 8
    const double start = static_cast<double>(first) - 0.5;
    const EdgesLeft left = TIGHTDP_SELECT_SIMD(prv_edges_gaussian)(law.mu, h, start, count + 1, edges.data());
    subtract_prv_edges(edges, left, 1, 0, count, out);
}

void prv_cells_of(const SampledLaw& law, double h, long long first, std::int64_t count, double* out) {
    std::vector<double> edges(static_cast<std::size_t>(count + 9));  // count + 1, rounded up to a multiple of 8
    const double w0 = law.add ? 1 : 1 - law.q, w1 = law.add ? 0 : law.q;
    // The loss for "add" is -L (SampledLaw). So the cells of L are computed, and their order is reversed.
    const double start = law.add ? -static_cast<double>(first + count - 1) - 0.5 : static_cast<double>(first) - 0.5;
    const EdgesLeft left =
        TIGHTDP_SELECT_SIMD(prv_edges_sampled)(law.sigma, law.q, w0, w1, h, start, count + 1, edges.data());
    subtract_prv_edges(edges, left, w0, w1, count, out);
    if (law.add) std::reverse(out, out + count);
}

void prv_cells_of(const LaplaceLaw& law, double h, long long first, std::int64_t count, double* out) {
    const Cells lattice{h, first, count};
    for (std::int64_t i = 0; i < count; ++i) out[i] = cell_mass(law, lattice, i);
}

void prv_cells_of(const PureLaw& law, double h, long long first, std::int64_t count, double* out) {
    const Cells lattice{h, first, count};
    std::fill_n(out, count, 0.0);
    for (const double atom : {-law.eps, law.eps})
        out[lattice.prv_cell_index_at(atom)] = cell_mass(law, lattice, lattice.prv_cell_index_at(atom));
}

}  // namespace

Support prv_support(const Law& law, double tail) {
    return std::visit([&](const auto& l) { return prv_support_of(l, tail); }, law);
}

Mean prv_mean(const Law& law) {
    return std::visit([](const auto& l) { return prv_mean_of(l); }, law);
}

double edge_error(const Law& law, const Support& s) {
    const double reach = std::max(std::fabs(s.low), std::fabs(s.high));
    return std::visit(Overload{
                          [&](const GaussianLaw& l) {
                              const double z = reach / l.mu + l.mu;
                              return kMillsAtZero * prv_tail_error(z) * l.mu +
                                     (8 * u + l.spread) * (reach + 2 * l.mu * l.mu);
                          },
                          [&](const SampledLaw& l) {
                              // t is the exponent of SampledLaw, and z the argument of the normal tail. Both are
                              // largest at the ends of the support. Tails beyond 40 are zero.
                              const double shift = 1 / l.sigma, z = std::min(9 + shift, 40.0);
                              const double t = std::max(reach - std::log(l.q), shift * (40 + 0.5 * shift));
                              const double argument = (8 * t + 8 * shift * shift + 16) * u;
                              return kMillsAtZero * prv_tail_error(z) * shift + argument + 16 * u * reach;
                          },
                          [&](const auto&) { return 8 * u * reach; },
                      },
                      law);
}

void prv_cells(const Law& law, double h, long long first, std::int64_t count, double* out) {
    std::visit([&](const auto& l) { prv_cells_of(l, h, first, count, out); }, law);
}

Law reverse_prv_single_losses(const Law& law) {
    if (const auto* sampled = std::get_if<SampledLaw>(&law))
        return SampledLaw{sampled->sigma, sampled->q, !sampled->add};
    return law;  // the other distributions are equal to those of their reversed pairs
}

}  // namespace tightdp::prv
