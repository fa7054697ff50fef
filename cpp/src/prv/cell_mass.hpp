// The probability of one cell of a grid. A cell is an interval of privacy losses between two edges. On a device each
// thread computes one cell. The host uses these functions in tests and for distributions whose cells need not be
// computed fast (docs/theory/prv.md, sections 2 and 4.1). The functions have to be compiled without contraction of
// a * b + c to fused multiply-adds. Then two neighbouring cells compute exactly the same edge.
#pragma once

#include <cstdint>

#include "single_losses.hpp"
#include "tightdp/special/normal.hpp"
#include "tightdp/special/sampled_loss.hpp"

namespace tightdp::prv {

// The cells ((first + i - 1/2) h, (first + i + 1/2) h], i < count. |first| + count is below 2^51, so that doubles
// represent edges / h exactly.
struct Cells {
    double h;
    long long first;
    std::int64_t count;

    TIGHTDP_HD double prv_left_edge(std::int64_t i) const noexcept { return (static_cast<double>(first + i) - 0.5) * h; }
    TIGHTDP_HD double prv_right_edge(std::int64_t i) const noexcept { return (static_cast<double>(first + i) + 0.5) * h; }
    // Returns the cell that holds an atom at y. Atoms beyond the ends belong to the outermost cells.
    TIGHTDP_HD std::int64_t prv_cell_index_at(double y) const noexcept {
        const long long i = llround(y / h) - first;
        return i < 0 ? 0 : i >= count ? count - 1 : static_cast<std::int64_t>(i);
    }
};

// Returns the lower tail Phi(z) of the standard normal distribution for z < 0. For z >= 0, returns minus the upper tail
// 1 - Phi(z). The relative error is at most 16 u, where u = 2^-53. The result is 0 for |z| beyond 38.
TIGHTDP_HD inline double prv_signed_tail(double z) noexcept {
    const double tail = normal_tail(std::fabs(z) < 1e3 ? std::fabs(z) : 1e3);
    return z < 0 ? tail : -tail;
}

// Returns P(a < Z <= b) for a standard normal Z. If 0 lies between a and b, the absolute error is at most 2 u.
// Otherwise the error consists of the errors of the two tails and a relative error of u.
TIGHTDP_HD inline double cell_normal_mass(double a, double b) noexcept {
    const double mass = prv_signed_tail(b) - prv_signed_tail(a) + (a < 0 && b >= 0 ? 1.0 : 0.0);
    return mass > 0 ? mass : 0.0;
}

// Each of the following functions returns P(Y in cell i) for the privacy loss Y, with the errors that single_losses.hpp
// states for `prv_cells`.

TIGHTDP_HD inline double cell_mass(const GaussianLaw& law, const Cells& c, std::int64_t i) noexcept {
    const double inverse = 1 / law.mu, middle = 0.5 * law.mu;
    return cell_normal_mass(c.prv_left_edge(i) * inverse - middle, c.prv_right_edge(i) * inverse - middle);
}

TIGHTDP_HD inline double cell_mass(const SampledLaw& law, const Cells& c, std::int64_t i) noexcept {
    const double shift = 1 / law.sigma;
    // The privacy loss for "add" is Y = -L, where L = ln(1 - q + q e^t) as for "remove" (SampledLaw).
    const double low = law.add ? -c.prv_right_edge(i) : c.prv_left_edge(i), high = law.add ? -c.prv_left_edge(i) : c.prv_right_edge(i);
    const double a = law.sigma * sampled_loss_inverse(low, law.q) + 0.5 * shift;
    const double b = law.sigma * sampled_loss_inverse(high, law.q) + 0.5 * shift;
    const double base = cell_normal_mass(a, b);
    return law.add ? base : (1 - law.q) * base + law.q * cell_normal_mass(a - shift, b - shift);
}

TIGHTDP_HD inline double cell_mass(const LaplaceLaw& law, const Cells& c, std::int64_t i) noexcept {
    const double a = c.prv_left_edge(i) > -law.mu ? c.prv_left_edge(i) : -law.mu,
                 b = c.prv_right_edge(i) < law.mu ? c.prv_right_edge(i) : law.mu;
    double mass = b > a ? -0.5 * std::exp(0.5 * (b - law.mu)) * std::expm1(0.5 * (a - b)) : 0.0;
    if (i == c.prv_cell_index_at(-law.mu)) mass += 0.5 * std::exp(-law.mu);
    if (i == c.prv_cell_index_at(law.mu)) mass += 0.5;
    return mass;
}

TIGHTDP_HD inline double cell_mass(const PureLaw& law, const Cells& c, std::int64_t i) noexcept {
    const double e = std::exp(-law.eps), p = 1 / (1 + e);
    return (i == c.prv_cell_index_at(law.eps) ? p : 0.0) + (i == c.prv_cell_index_at(-law.eps) ? p * e : 0.0);
}

}  // namespace tightdp::prv
