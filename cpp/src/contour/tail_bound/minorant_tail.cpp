// Bounds on the decay of a characteristic function by a minorant, a density that lies below that of the loss.
// minorant.hpp explains the cells and the samples of a minorant.
#include "minorant_tail.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Units of work (runtime/work_budget.hpp) for one cell, and for four cells at one value of s.
constexpr std::int64_t kCellUnits = 3, kFourProductsUnits = 2;

double bound_tail_variation(const Pair& pair, const NodeGrid& grid, const std::vector<double>& posterior,
                            const std::vector<double>& weights, double c, double sum) {
    if (pair.is_contour_replace()) return HUGE_VAL;  // no bound, because the number of modes is unknown
    const double b = pair.contour_composition_weight_power(c) + 1;
    const std::int64_t last = grid.n - 1;
    if (!minorant_nodes_cover_modes(b, 1 / pair.sigma, grid.first * grid.h, posterior[0], (grid.first + last) * grid.h,
                                    posterior[last]))
        return HUGE_VAL;
    double peak = 0;
    for (std::int64_t i = 0; i < grid.n; ++i) peak = tail_density_peak(peak, weights[i], posterior[i]);
    return tail_density_variation(b, pair.sigma, grid.h, peak, sum);
}

}  // namespace

MinorantTail::MinorantTail(SampledMgf& mgf, double c, double resolution) {
    const std::vector<double>& weights = mgf.weights_;
    const NodeGrid& grid = mgf.grid_;
    const Pair& pair = mgf.pair_;
    Moments m;
    mgf.sum_node_moments(c, m, mgf.weights_.data());
    variation_ = bound_tail_variation(pair, grid, mgf.posterior_, weights, c, m.sum);
    // The cells cover the nodes from the first to the last one whose fraction of the mass is at least `resolution`.
    std::int64_t from = 0, to = grid.n - 1;
    const double least = resolution * m.sum;
    while (from < to && weights[from] < least) ++from;
    while (to > from && weights[to] < least) --to;
    const double low = (grid.first + from - 1) * grid.h, high = (grid.first + to + 1) * grid.h;
    constexpr std::int64_t most_cells = 1024 - 2 * kNodeBlock;
    const double h = minorant_cell_step(pair.sigma, low, high, most_cells);
    NodeGrid g{pair.q, 1 / pair.sigma, h, std::floor(low / h), 0};
    g.n = (static_cast<std::int64_t>((high - low) / h) + 2 + kNodeBlock) / kNodeBlock * kNodeBlock;
    pair.is_contour_replace() ? build_replace_minorant_cells(mgf, g, c, bound_minorant_mass(m.sum))
                      : build_minorant_cells(mgf, g, c, bound_minorant_mass(m.sum));
}

void MinorantTail::build_minorant_cells(const SampledMgf& mgf, const NodeGrid& g, double c, double total) {
    const Pair& pair = mgf.pair_;
    thread_local std::vector<double> loss, posterior, density;
    loss.resize(g.n);
    posterior.resize(g.n);
    density.resize(g.n);
    TIGHTDP_SELECT_SIMD(compute_mgf_nodes)(g, loss.data(), posterior.data());
    Moments unused;
    const double b = pair.contour_composition_weight_power(c);
    TIGHTDP_SELECT_SIMD(sum_mgf_moments)
    (g, b, mgf.choose_mgf_weight_shift(c), loss.data(), posterior.data(), density.data(), unused);
    for (std::int64_t i = 0; i + 1 < g.n; ++i) {
        const Cell cell =
            minorant_cell({loss[i], posterior[i], density[i]}, {loss[i + 1], posterior[i + 1], density[i + 1]},
                          g.h / pair.sigma, b, pair.is_contour_add(), total);
        if (cell.mass > 0) cells_.push_back(cell);
    }
    if (pair.is_contour_add()) {  // the loss is -ln W, so the cells are mirrored to ascend again
        for (Cell& cell : cells_) cell.left = -cell.left - cell.length;
        std::ranges::reverse(cells_);
    }
}

void MinorantTail::build_replace_minorant_cells(const SampledMgf& mgf, const NodeGrid& grid, double c, double total) {
    thread_local ReplaceNodes nodes;
    thread_local std::vector<double> density;
    mgf.compute_replace_nodes(grid, nodes);
    density.resize(grid.n);
    Moments unused;
    mgf.sum_replace_moments(grid, nodes, c, unused, density.data());
    const double step = grid.h / mgf.pair_.sigma;
    for (std::int64_t i = 0; i + 1 < grid.n; ++i) {
        // The logarithm of the density at a node u is (1 + c) ln W(u) plus other terms. ln W(u) is the log_weight of
        // ReplaceNodes (mgf/sampled_mgf.hpp) and convex in u, so a tangent bounds it from below. The sum of the other
        // terms is concave, so a chord bounds it from below.
        const double above = (1 + c) * (nodes.log_weight[i + 1] - nodes.log_weight[i] - step * nodes.posterior[i]);
        const double least = std::min(density[i], density[i + 1] * std::max(0.0, 1 - above * (1 + 1e-9) - 1e-9));
        const double slow = nodes.posterior[i] + nodes.mirrored_posterior[i + 1],
                     fast = nodes.posterior[i + 1] + nodes.mirrored_posterior[i];
        const double mass = least * (slow / fast) / total * (1 - 1e-12);
        if (mass > 0 && slow > 0) cells_.push_back({mass, nodes.loss[i], step * slow});
    }
}

double MinorantTail::log_decay(double s_low, double s_high) const {
    const std::int64_t cells = static_cast<std::int64_t>(cells_.size()),
                       samples = static_cast<std::int64_t>(sampled_.size());
    work::spend(kCellUnits * cells);
    return contour::minorant_log_decay({cells_.data(), cells, variation_, sampled_.data(), samples, spacing_}, s_low,
                                       s_high);
}

// Computes the Fourier transform of the minorant at equally spaced s (contour.md, section 3.5). Cells are replaced by
// points at their centres. Within half a spacing of a sample, the transform changes by at most spacing / 2 times the
// mean distance from the centre of mass.
void MinorantTail::sample_minorant_decay() {
    if (cells_.empty()) return;
    const std::int64_t n = static_cast<std::int64_t>(cells_.size());
    const std::int64_t padded = (n + kNodeBlock - 1) / kNodeBlock * kNodeBlock;
    std::vector<double> at(padded, 0.0), mass(padded, 0.0);
    double total = 0, mean = 0, spread = 0, squares = 0;
    for (const Cell& cell : cells_) {
        total += cell.mass;
        mean += cell.mass * (cell.left + 0.5 * cell.length);
        squares += cell.mass * cell.length * cell.length;
    }
    mean /= total;
    for (std::int64_t i = 0; i < n; ++i) {
        at[i] = cells_[i].left + 0.5 * cells_[i].length - mean;
        mass[i] = cells_[i].mass;
        spread += mass[i] * std::abs(at[i]);
    }
    // The transform changes between samples, which makes the bound on 1 - |phi(s)| smaller by spacing * spread / 2 =
    // 0.05. The samples end at s = 40 / spread. For larger s, the bounds by cells and by the total variation
    // (minorant.hpp) are better.
    constexpr std::int64_t samples = 400;
    spacing_ = 0.1 / spread;
    sampled_.assign(samples, 0.0);
    std::vector<double> re(samples), im(samples);
    work::spend(kFourProductsUnits * padded / 4 * samples);
    TIGHTDP_SELECT_SIMD(sum_mgf_phases)(at.data(), 1.0, mass.data(), padded, spacing_, samples, re.data(), im.data());
    for (std::int64_t m = 1; m < samples; ++m) {
        const double modulus = std::hypot(total + re[m - 1], im[m - 1]);
        sampled_[m] = minorant_sampled_decay(total, modulus, m * spacing_, spacing_, squares, spread);
    }
}

}  // namespace tightdp::contour
