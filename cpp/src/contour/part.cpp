#include "part.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/work.hpp"
#include "quadrature.hpp"

namespace tightdp::contour {
namespace {

// Under "add", ln M(c) <= c ln(1/(1-q)) and under "remove" ln M(c) <= c (c + 1) / (2 sigma^2): below this no
// term of the sum overflows and M - 1 is summed directly.
constexpr double kDirect = 600;

// Of work: a node's loss or its moments, and those of a replaced record; four of the nodes of an abscissa.
constexpr std::int64_t kNodeUnits = 3, kReplacedUnits = 30, kFourProductsUnits = 2;

}  // namespace

// Step, and the first and last node in steps.
struct Part::Extent {
    double h, margin, left, right;
};

Part::Extent Part::extent(double c_most, double s_most, double log_inverse) const {
    Extent e;
    e.h = node_step(sigma_, q_, c_most, pair_, s_most, log_inverse);
    e.margin = range_margin(sigma_, c_most, pair_, log_inverse);
    // One more node on the right: the tail of the sum is compared with an integral that starts a step
    // earlier.
    e.left = std::floor((range_left(sigma_, q_, c_most, pair_) - e.margin) / e.h) - 1;
    e.right = std::ceil(range_right(sigma_, q_, c_most, pair_, e.margin) / e.h) + 1;
    return e;
}

double Part::nodes_for(double c_most, double s_most, double log_inverse) const {
    const Extent e = extent(c_most, s_most, log_inverse);
    return e.right - e.left < kMaxNodes ? e.right - e.left : HUGE_VAL;
}

bool Part::place(double c_most, double s_most, double log_inverse, long most_nodes) {
    const auto [h, margin, left, right] = extent(c_most, s_most, log_inverse);
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
    const double most = add_ ? -c * std::log1p(-q_) : (replace_ ? 2 : 0.5) * c * (c + 1) / (sigma_ * sigma_);
    if (most < kDirect) return 0;
    // A peak known to within some tens keeps all terms in range: two units of u apart are near enough.
    const long stride = std::clamp(static_cast<long>(2 / grid_.h), 1L, grid_.n);
    double peak = 0;
    const double b = beta(c);
    for (long i = 0; i < grid_.n; i += stride) {
        const double u = (grid_.first + i) * grid_.h;
        const double power = replace_ ? c * loss_[i] + both_.ahead[i] : b * loss_[i];
        peak = std::max(peak, power - 0.5 * u * u);
    }
    return peak < kDirect ? 0 : peak;
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
    const double s = shift(c), sign = add_ ? -1 : 1, mean = m.first / m.sum;
    const double k0 = s > 0 ? s + std::log(m.sum) : std::log1p(m.minus_one);
    return {count_ * k0, count_ * sign * mean, count_ * std::max(0.0, m.second / m.sum - mean * mean)};
}

CertifiedLogMgf Part::log_mgf(double c) {
    Moments m;
    moments(c, m, nullptr);
    const double s = shift(c);
    const double rule = quadrature_error(sigma_, q_, c, pair_, 0, grid_.h) +
                        range_error(sigma_, c, pair_, margin_) +
                        2.1 * std::exp(-2 * (kPi / grid_.h) * (kPi / grid_.h));
    const double sums = static_cast<double>(grid_.n);
    double value, rounding;
    if (s > 0) {
        value = s + std::log(m.sum);
        rounding = (m.alpha / m.sum + sums + 8) * kUnitRoundoff + 4 * kUnitRoundoff * std::abs(value);
    } else {
        value = std::log1p(m.minus_one);
        rounding = m.minus_one_err * (1 + sums / 42) / (1 + m.minus_one) * kUnitRoundoff +
                   4 * kUnitRoundoff * std::abs(value);
    }
    // |ln(1 + x)| <= 1.01 |x| for the small relative errors that are of use; larger ones give an infinite
    // bound.
    if (!(rule + rounding < 0.01)) return {count_ * value, HUGE_VAL, HUGE_VAL};
    return {count_ * value, count_ * 1.02 * rule, count_ * 1.02 * rounding};
}

// contour.md 3.4: the density of the loss is f = phi W^beta sigma / (r M) and d ln f / du = -u - 1/sigma +
// (beta + 1) r / sigma, so that every mode lies where the two linear bounds of that change sign, there are at
// most two (one where beta <= -1), and between nodes f exceeds the nearer one at most by e^{B h^2 / 8}, B
// bounding the second derivative of ln f.
double Part::variation(double c, double sum) const {
    if (replace_) return HUGE_VAL;  // the number of modes is not known
    const double b = beta(c) + 1, inverse = 1 / sigma_;
    const auto slope = [&](long i) {
        return -(grid_.first + i) * grid_.h - inverse + b * posterior_[i] * inverse;
    };
    const bool unimodal = b <= 0;
    // Right of the nodes f falls: range_right() saw to it. Under "add" b < 1, and the right end is past 0.
    const bool covered = unimodal ? slope(0) > 0 && slope(grid_.n - 1) < 0 : grid_.first * grid_.h < -inverse;
    if (!covered) return HUGE_VAL;
    double peak = 0;
    for (long i = 0; i < grid_.n; ++i) peak = std::max(peak, weights_[i] / posterior_[i]);
    const double bend = 1 + std::abs(b) * 0.25 * inverse * inverse;
    return (unimodal ? 2 : 4) * peak * sigma_ / grid_.h * std::exp(bend * grid_.h * grid_.h / 8) /
           (sum * (1 - 1e-3));
}

double Decay::log_decay(double s_low, double s_high) const {
    work::spend(kNodeUnits * static_cast<std::int64_t>(cells.size()));
    double least = decay(cells.data(), static_cast<long>(cells.size()), s_low, s_high);
    const double last = sampled.empty() ? HUGE_VAL : std::floor(s_high / spacing + 0.5);
    if (last < static_cast<double>(sampled.size())) {
        double inside = 1;
        for (long m = static_cast<long>(s_low / spacing + 0.5); m <= last; ++m)
            inside = std::min(inside, sampled[m]);
        least = std::max(least, inside);
    }
    return std::max(least, std::log(s_low / variation));
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
    TIGHTDP_SELECT_SIMD(contour_products)(at.data(), 1.0, mass.data(), padded, spacing, samples, re.data(),
                                          im.data());
    for (long m = 1; m < samples; ++m) {
        const double s = m * spacing;
        const double modulus = std::hypot(total + re[m - 1], im[m - 1]);
        // 1e-9: the rounding of these sums, which is below 1e-12 (contour.md 5.2).
        const double bound =
            total - modulus - (s * s / 24 + 0.06 * s * spacing) * squares - 0.5 * spacing * spread - 1e-9;
        sampled[m] = std::max(0.0, bound);
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
    // Steps of .15 keep 9/10 of the mass under the minorant; .2 sigma keeps the density even across a cell.
    constexpr long most_cells = 1024;
    const double h = std::max(std::min(0.15, 0.2 * sigma_), (high - low) / (most_cells - 2 * kNodeBlock));
    NodeGrid g{q_, 1 / sigma_, h, std::floor(low / h), 0};
    g.n = (static_cast<long>((high - low) / h) + 2 + kNodeBlock) / kNodeBlock * kNodeBlock;
    if (replace_) return cells_replaced(c, g, m.sum * (1 + 1e-3), cells);
    thread_local std::vector<double> loss, posterior, density;
    loss.resize(g.n);
    posterior.resize(g.n);
    density.resize(g.n);
    TIGHTDP_SELECT_SIMD(contour_nodes)(g, loss.data(), posterior.data());
    Moments unused;
    const double b = beta(c);
    TIGHTDP_SELECT_SIMD(contour_moments)
    (g, b, shift(c), loss.data(), posterior.data(), density.data(), unused);
    // place() kept the relative error of the sum under 1e-3 (contour.md 3.3).
    const double total = m.sum * (1 + 1e-3);
    for (long i = 0; i + 1 < g.n; ++i) {
        const double length = h / sigma_ * posterior[i];
        // ln density is concave under "add"; under "remove" it is a chord plus a tangent away from that.
        double right = density[i + 1];
        if (!add_) right *= std::max(0.0, 1 - b * (loss[i + 1] - loss[i] - length) * (1 + 1e-9) - 1e-9);
        const double mass = std::min(density[i], right) * posterior[i] / posterior[i + 1] / total;
        if (mass > 0 && length > 0) cells.push_back({mass, loss[i], length});
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
    return 2.2 *
           (quadrature_error(sigma_, q_, c, pair_, s_most_, grid_.h) + range_error(sigma_, c, pair_, margin_));
}

}  // namespace tightdp::contour
