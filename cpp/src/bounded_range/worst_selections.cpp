// The worst privacy profile of steps of bounded range, round by round (docs/theory/filters.md, section 9). Each round
// takes one more step into account. The rounds begin with the last step and go backwards.
#include "worst_selections.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "selection_cell.hpp"
#include "tightdp/accounting/gaussian.hpp"

namespace tightdp {
namespace {

// Factor by which the bound is enlarged in each round. It covers about twenty roundings of positive numbers, a relative
// error of 2.3e-15. It also covers the slightly wrong loss at which selection_cell() evaluates a maximum.
constexpr double kRound = 1 + 1e-14;

std::vector<SelectionCell> list_selection_cells(double eta, std::size_t cells) {
    const double h = eta / static_cast<double>(cells);
    std::vector<SelectionCell> found(cells);
    for (std::size_t i = 0; i < cells; ++i) {
        const double near = static_cast<double>(i) * h, above = static_cast<double>(cells - 1 - i) * h;
        SelectionCell& c = found[i];
        c.end = std::exp(-eta);
        c.least = -std::expm1(-eta);
        c.y_far = std::exp(-(near + h));
        c.width = c.y_far * std::expm1(h);
        c.loss_far = c.end * std::expm1(above);
        c.rest_near = -std::expm1(-near);
    }
    return found;
}

}  // namespace

void worst_selections(double eta, std::size_t count, std::size_t cells, double* curve) {
    const auto steps = list_selection_cells(eta, cells);
    const double h = eta / static_cast<double>(cells);
    const std::size_t most = 2 * count * cells + 1;
    // V(eps) is the bound on delta for the rounds so far, and best[j] is V((j - half) h). At all smaller eps, V is
    // 1 - e^eps. At all larger eps, V is 0.
    std::vector<double> padded(most + 2 * cells + 1), best(most);
    std::size_t half = 0;
    best[0] = 0;
    for (std::size_t round = 1; round <= count; ++round) {
        const std::size_t grown = half + cells, n = 2 * grown + 1;
        // This round computes V at eps_k = (k - grown) h. padded[j] is V((j - grown - cells) h), up to eta beyond the
        // first and the last eps_k, because a step from eps_k needs V up to eta below and above eps_k.
        for (std::size_t j = 0; j < 2 * cells; ++j)
            padded[j] = -std::expm1(-h * static_cast<double>(grown + cells - j));
        std::copy_n(best.begin(), 2 * half + 1, padded.begin() + static_cast<std::ptrdiff_t>(2 * cells));
        std::fill(padded.begin() + static_cast<std::ptrdiff_t>(2 * cells + 2 * half + 1),
                  padded.begin() + static_cast<std::ptrdiff_t>(2 * grown + 2 * cells + 1), 0.0);
        std::fill_n(best.begin(), n, 0.0);
        for (std::size_t i = 0; i < cells; ++i) {
            const double* low = padded.data() + (cells - 1 - i);  // low[k] is V(eps_k - (i+1)h)
            TIGHTDP_SELECT_SIMD(selection_cell)(steps[i], low, low + cells, best.data(), n);
        }
        for (std::size_t k = 0; k < n; ++k) best[k] = std::min(best[k] * kRound, 1.0);
        half = grown;
    }
    std::copy_n(best.begin(), most, curve);
}

double bound_gaussian_after_selections(double mu, const double* losses, const double* weights, std::size_t n,
                                       double eps) noexcept {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j)
        if (weights[j] > 0) sum += weights[j] * gaussian_bounds(mu, eps - losses[j]).delta.upper;
    return sum * (1 + static_cast<double>(n + 8) * 0x1p-52);
}

}  // namespace tightdp
