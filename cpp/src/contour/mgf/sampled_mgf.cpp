#include "sampled_mgf.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/work.hpp"

namespace tightdp::contour {
namespace {

// Of work: a node's loss or its moments, and those of a replaced record; four of the nodes of an abscissa.
constexpr std::int64_t kNodeUnits = 3, kReplacedUnits = 30, kFourProductsUnits = 2;

}  // namespace

double Part::nodes_for(double c_most, double s_most, double log_inverse) const {
    const Extent e = extent(sigma_, q_, pair_, c_most, s_most, log_inverse);
    return e.right - e.left < kMaxNodes ? e.right - e.left : HUGE_VAL;
}

bool Part::place(double c_most, double s_most, double log_inverse, long most_nodes) {
    const auto [h, margin, left, right] = extent(sigma_, q_, pair_, c_most, s_most, log_inverse);
    if (!(right - left < most_nodes)) return false;
    margin_ = margin;
    s_most_ = s_most;
    const long n = static_cast<long>(right - left) + 1;
    grid_ = {q_, 1 / sigma_, h, left, (n + kNodeBlock - 1) / kNodeBlock * kNodeBlock};
    loss_.resize(grid_.n);
    posterior_.resize(grid_.n);
    weights_.resize(grid_.n);
    work::spend(kNodeUnits * grid_.n);
    if (replace_) {
        nodes_replaced(grid_, both_);
        loss_ = both_.loss;
    } else {
        TIGHTDP_SELECT_SIMD(contour_nodes)(grid_, loss_.data(), posterior_.data());
    }
    return true;
}

double Part::largest_loss() const {
    return std::max(std::abs(loss_.front()), std::abs(loss_.back()));
}

double Part::shift(double c) const {
    const double b = beta(c), most = most_log_mgf(sigma_, q_, c, pair_);
    if (replace_) return weight_shift(grid_, most, [&](long i) { return c * loss_[i] + both_.ahead[i]; });
    return weight_shift(grid_, most, [&](long i) { return b * loss_[i]; });
}

void Part::moments(double c, Moments& out, double* weights) {
    work::spend((replace_ ? kReplacedUnits : kNodeUnits) * grid_.n);
    if (replace_) return moments_replaced(grid_, both_, c, out, weights);
    TIGHTDP_SELECT_SIMD(contour_moments)
    (grid_, beta(c), shift(c), loss_.data(), posterior_.data(), weights, out);
}

Cumulants Part::cumulants(double c) {
    Moments m;
    moments(c, m, nullptr);
    return cumulants_of(m, shift(c), count_, add_);
}

CertifiedLogMgf Part::log_mgf(double c) {
    Moments m;
    moments(c, m, nullptr);
    const double rule = real_rule_error(sigma_, q_, pair_, c, grid_.h, margin_);
    return log_mgf_of(m, shift(c), rule, grid_.n, count_);
}

double Part::variation(double c, double sum) const {
    if (replace_) return HUGE_VAL;  // the number of modes is not known
    const double b = beta(c) + 1;
    const long last = grid_.n - 1;
    if (!covers_modes(b, 1 / sigma_, grid_.first * grid_.h, posterior_[0], (grid_.first + last) * grid_.h,
                      posterior_[last]))
        return HUGE_VAL;
    double peak = 0;
    for (long i = 0; i < grid_.n; ++i) peak = higher_peak(peak, weights_[i], posterior_[i]);
    return density_variation(b, sigma_, grid_.h, peak, sum);
}

double Decay::log_decay(double s_low, double s_high) const {
    work::spend(kNodeUnits * static_cast<std::int64_t>(cells.size()));
    const long samples = static_cast<long>(sampled.size());
    return contour::log_decay(
        {cells.data(), static_cast<long>(cells.size()), variation, sampled.data(), samples, spacing}, s_low, s_high);
}

// contour.md 3.5: the transform of the minorant itself at equally spaced abscissae, cells taken as points at
// their centres; between samples it moves by at most spacing / 2 times the mean distance from the centre of
// mass.
void Decay::sample() {
    if (cells.empty()) return;
    const long n = static_cast<long>(cells.size());
    const long padded = (n + kNodeBlock - 1) / kNodeBlock * kNodeBlock;
    std::vector<double> at(padded, 0.0), mass(padded, 0.0);
    double total = 0, mean = 0, spread = 0, squares = 0;
    for (const Cell& cell : cells) {
        total += cell.mass;
        mean += cell.mass * (cell.left + 0.5 * cell.length);
        squares += cell.mass * cell.length * cell.length;
    }
    mean /= total;
    for (long i = 0; i < n; ++i) {
        at[i] = cells[i].left + 0.5 * cells[i].length - mean;
        mass[i] = cells[i].mass;
        spread += mass[i] * std::abs(at[i]);
    }
    // A spacing of a tenth of the wavelength scale costs .05 of modulus; past 40 of those scales the
    // variation bound and the cells themselves do better.
    constexpr long samples = 400;
    spacing = 0.1 / spread;
    sampled.assign(samples, 0.0);
    std::vector<double> re(samples), im(samples);
    work::spend(kFourProductsUnits * padded / 4 * samples);
    TIGHTDP_SELECT_SIMD(contour_products)(at.data(), 1.0, mass.data(), padded, spacing, samples, re.data(), im.data());
    for (long m = 1; m < samples; ++m) {
        const double modulus = std::hypot(total + re[m - 1], im[m - 1]);
        sampled[m] = sampled_decay(total, modulus, m * spacing, spacing, squares, spread);
    }
}

void Part::build_decay(double c, double resolution, Decay& out) {
    build_cells(c, resolution, out.cells);
    Moments m;
    moments(c, m, weights_.data());
    out.variation = variation(c, m.sum);
}

void Part::build_cells(double c, double resolution, std::vector<Cell>& cells) {
    cells.clear();
    Moments m;
    moments(c, m, weights_.data());
    // Where a node's share of the mass reaches the resolution.
    long from = 0, to = grid_.n - 1;
    const double least = resolution * m.sum;
    while (from < to && weights_[from] < least) ++from;
    while (to > from && weights_[to] < least) --to;
    const double low = (grid_.first + from - 1) * grid_.h, high = (grid_.first + to + 1) * grid_.h;
    constexpr long most_cells = 1024 - 2 * kNodeBlock;
    const double h = cell_step(sigma_, low, high, most_cells);
    NodeGrid g{q_, 1 / sigma_, h, std::floor(low / h), 0};
    g.n = (static_cast<long>((high - low) / h) + 2 + kNodeBlock) / kNodeBlock * kNodeBlock;
    if (replace_) return cells_replaced(c, g, most_mass(m.sum), cells);
    thread_local std::vector<double> loss, posterior, density;
    loss.resize(g.n);
    posterior.resize(g.n);
    density.resize(g.n);
    TIGHTDP_SELECT_SIMD(contour_nodes)(g, loss.data(), posterior.data());
    Moments unused;
    const double b = beta(c);
    TIGHTDP_SELECT_SIMD(contour_moments)
    (g, b, shift(c), loss.data(), posterior.data(), density.data(), unused);
    for (long i = 0; i + 1 < g.n; ++i) {
        const Cell cell =
            minorant_cell({loss[i], posterior[i], density[i]}, {loss[i + 1], posterior[i + 1], density[i + 1]},
                          h / sigma_, b, add_, most_mass(m.sum));
        if (cell.mass > 0) cells.push_back(cell);
    }
    if (add_) {  // the loss is -ln W: mirror, so that cells run left to right
        for (Cell& cell : cells) cell.left = -cell.left - cell.length;
        std::reverse(cells.begin(), cells.end());
    }
}

double Part::products(double c, double step, long steps, double* re, double* im, double* rounding) {
    Moments m;
    moments(c, m, weights_.data());
    // Only the nodes that carry mass at this abscissa: place() may have reached further right for others.
    const double reach = range_right(sigma_, q_, c, pair_, margin_);
    long n = static_cast<long>(std::ceil(reach / grid_.h) + 1 - grid_.first) + 1;
    n = std::min(grid_.n, (n + kNodeBlock - 1) / kNodeBlock * kNodeBlock);
    work::spend(kFourProductsUnits * (n / 4) * steps);
    TIGHTDP_SELECT_SIMD(contour_products)
    (loss_.data(), add_ ? -1.0 : 1.0, weights_.data(), n, step, steps, re, im);
    const double inverse = 1 / m.sum;
    // contour.md 5.2: the phases, the recurrence, the weights, the sum.
    const double abs_first = m.abs_first * inverse, alpha = m.alpha * inverse;
    const double fixed = m.alpha_first * inverse + m.eta * inverse + abs_first * (n + 40.0 + alpha);
    for (long i = 0; i < steps; ++i) {
        re[i] *= inverse;
        im[i] *= inverse;
        const double row = static_cast<double>(i % 128) + 1;
        rounding[i] = kUnitRoundoff * step * (i + 1) * (fixed + 2 * row * abs_first);
    }
    return transform_rule_error(sigma_, q_, pair_, c, s_most_, grid_.h, margin_);
}

}  // namespace tightdp::contour
