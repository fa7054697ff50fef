// Turns the masses of cells into weights of points (docs/theory/grid.md, sections 2 and 3). The upper side has
// pessimistic weights, and the lower side optimistic ones. grid_weights.hpp explains the sides, the tilt, P-mass and
// Q-mass.
#include "grid_weights.hpp"

#include <algorithm>
#include <cmath>

#include "grid_loops.simd.hpp"

namespace tightdp::grid {
namespace {

// Limit on the spacing h of a lattice. From this limit on, products with e^h may exceed the range of doubles.
constexpr double kWide = 300;

// Constants of one lattice. Masses at a point x are stored times e^{tilt x}, and masses of a cell times e^{tilt x} for
// its left end x. So a mass that moves to the next point is multiplied by lean = e^{tilt h}, and a mass that moves to
// the point before by back = e^{-tilt h}.
struct GridFactors {
    explicit GridFactors(const Lattice& l)
        : h(l.h),
          tilt(l.tilt),
          lean(std::exp(l.tilt * l.h)),
          back(std::exp(-l.tilt * l.h)),
          fall(-std::expm1(-l.h)),
          rise(std::expm1(l.h)),
          tiny((16 + 8 * l.tilt * l.h) * u) {}

    double h, tilt, lean, back;
    double fall, rise;  // 1 - e^{-h}, e^h - 1
    double tiny;        // bound on the relative rounding error of a weight
};

// Makes the privacy profile of the weights w convex. Between the points, the profile is linear in e^eps. At a point
// with a negative weight, the profile is concave. There the chord between the neighbouring points replaces the profile,
// and this chord lies below the profile (grid.md, Lemma 5). Weights are rounded down.
void make_grid_profile_convex(std::vector<double>& w, const GridFactors& k) {
    const double less = 1 + k.tiny;
    const std::size_t last = w.size() - 1;
    std::vector<std::size_t> kept;  // ascending indices of the points with a positive weight so far
    for (std::size_t i = 0; i < last; ++i) {
        if (w[i] >= 0) {
            if (w[i] > 0) kept.push_back(i);
            continue;
        }
        std::size_t at = i;
        double debt = w[i];  // a negative weight at the point `at`, which is distributed to the neighbours
        w[i] = 0;
        while (debt < 0) {
            const double right_distance = (i + 1 - at) * k.h;
            if (kept.empty()) {
                w[i + 1] += debt * std::exp(k.tilt * right_distance) * less;
                break;
            }
            const std::size_t l = kept.back();
            const double left_distance = (at - l) * k.h;
            const double right = std::expm1(-left_distance) / std::expm1(-left_distance - right_distance);
            w[i + 1] += debt * right * std::exp(k.tilt * right_distance) * less;
            w[l] += debt * std::max(0.0, 1 - right) * std::exp(-k.tilt * left_distance) * less + debt * 4 * u;
            debt = 0;
            if (w[l] < 0) {
                debt = w[l];
                w[l] = 0;
                at = l;
            }
            if (w[l] <= 0) kept.pop_back();
        }
    }
    // The last weight is not negative in exact arithmetic. If rounding errors make it negative, other points are
    // dropped until their weights make up for the negative weight (grid.md, Lemma 6).
    if (w[last] >= 0) return;
    double owed = -w[last];
    std::size_t from = last;
    w[last] = 0;
    while (owed > 0 && !kept.empty()) {
        const std::size_t l = kept.back();
        kept.pop_back();
        owed *= std::exp(-k.tilt * (from - l) * k.h) * less;  // moves the tilt from `from` to l
        from = l;
        const double has = w[l];
        w[l] = 0;
        const double next = kept.empty() ? HUGE_VAL : (l - kept.back()) * k.h;
        const double end = kept.empty() ? HUGE_VAL : (last - kept.back()) * k.h;
        const double at_next = owed + has * std::expm1(-next) / -std::expm1(-end);
        owed = std::max({0.0, (owed - has) * less, at_next * less});
    }
}

// Bound on how far a privacy profile lies below its chord over a cell (grid.md, formula 3). The chord is the line, as a
// function of e^eps, through the profile's values at the ends of the cell. At the fraction m of the cell, measured in
// e^eps, the bound is the smallest of `left` * m, `most` and `right` * (1 - m).
struct Gap {
    double left = 0, most = 0, right = 0;
};

// Returns how far the lower side's profile, which consists of chords, lies below a given privacy profile at each point.
// These distances are such that the chords lie below the profile between the points too (grid.md, section 3.2). A heavy
// cell, one with much mass, needs large distances at its ends. If its neighbour is light, a large distance at the
// shared point would use up the neighbour's mass. The distance at this point is therefore limited, and the distance at
// the heavy cell's other end is increased instead. `curve` holds the values of the profile at the points.
std::vector<double> compute_grid_profile_drops(const std::vector<Gap>& gaps, const std::vector<double>& curve,
                                               const GridFactors& k) {
    const std::size_t n = gaps.size();
    std::vector<double> drop(n + 1);
    for (std::size_t i = 1; i < n; ++i) {
        const Gap &before = gaps[i - 1], &after = gaps[i];
        const double most = before.most * k.lean;
        drop[i] = after.most > most ? std::min(after.most, before.left * k.lean) : std::min(most, after.right);
    }
    // Returns the distance that cell i needs at its left end, given the distance at its right end.
    const auto by_right = [&](std::size_t i) {
        const double next = drop[i + 1] * k.back, most = gaps[i].most;
        return next >= most ? most : gaps[i].right - next * (gaps[i].right / most - 1);
    };
    for (std::size_t i = n; i-- > 1;)
        if (drop[i + 1] * k.back < gaps[i].most) drop[i] = std::max(drop[i], by_right(i));
    for (std::size_t i = 0; i < n; ++i) {
        const Gap& g = gaps[i];
        if (!(drop[i] < g.most)) continue;
        const double needed = (g.left - drop[i] * (g.left / g.most - 1)) * k.lean;
        if (needed <= 0.5 * curve[i + 1])
            drop[i + 1] = std::max(drop[i + 1], needed);
        else if (!(drop[i + 1] >= needed))  // true also if `needed` is NaN
            drop[i] = std::max(drop[i], by_right(i));
    }
    for (double& d : drop) d *= 1 + k.tiny;
    return drop;
}

// Moves the mass of each cell down to its left point. This does not preserve the mean, so
// compute_optimistic_grid_weights() calls the function only if the cells are too wide for better formulas.
std::vector<double> move_mass_down_grid(const Cells& cells) {
    std::vector<double> w(cells.point.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] = cells.point[i] * std::max(0.0, 1 - cells.point_error[i]) * (1 - 4 * u);
        if (i < cells.mass.size()) w[i] += cells.mass[i] * std::max(0.0, 1 - cells.error[i]) * (1 - 4 * u);
    }
    return w;
}

}  // namespace

std::vector<double> compute_pessimistic_grid_weights(const Cells& cells, const Lattice& lattice, double slack) {
    const GridFactors k(lattice);
    const std::size_t n = cells.mass.size();
    std::vector<double> w(n + 1);
    const double more = 1 + k.tiny;
    double carried = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const double mass = cells.mass[i] * (1 + cells.error[i]);
        const double spread = std::min(cells.spread[i] * (1 + cells.error[i]) + 2 * slack * mass, mass * k.fall);
        const double right = std::min(mass, spread / k.fall * (1 + 4 * u));
        w[i] = (carried + (mass - right) + cells.point[i] * (1 + cells.point_error[i])) * more;
        carried = right * k.lean;
    }
    w[n] = (carried + cells.point[n] * (1 + cells.point_error[n])) * more;
    return w;
}

std::vector<double> compute_optimistic_grid_weights(const Cells& cells, const Lattice& lattice, double slack) {
    const GridFactors k(lattice);
    if (!(k.h < kWide)) return move_mass_down_grid(cells);
    // The first n cells include all mass of cells and of points. Weights beyond them must stay exactly zero.
    std::size_t n = cells.mass.size();
    while (n > 1 && !(cells.mass[n - 1] > 0) && !(cells.point[n] > 0)) --n;
    std::vector<Gap> gaps(n);
    std::vector<double> mass(n);
    for (std::size_t i = 0; i < n; ++i) {
        const double error = cells.error[i], most = cells.mass[i] * (1 + error);
        if (!(error < 0.1) || !(most > 0)) continue;
        // Mass and spread are rounded so that neither the mass nor the quotient spread / mass grows (grid.md,
        // section 3.1).
        mass[i] = cells.mass[i] * (1 - error);
        const double spread = std::clamp(cells.spread[i] * (1 - 4 * error) - 2 * slack * most, 0.0, mass[i] * k.fall);
        const double ratio = mass[i] - spread;  // the Q-mass times e^{x_i}
        Gap& g = gaps[i];
        g.right = spread;
        g.left = std::max(0.0, ratio * k.rise - spread) * (1 + k.tiny) + k.tiny * spread;
        g.most = spread * std::max(0.0, 1 - spread / (ratio * k.rise)) * (1 + k.tiny) + k.tiny * spread;
        if (cells.bend[i] < 0.5) {
            const double bend = 1 + cells.bend[i] * (1 + cells.bend[i]);  // upper bound on e^bend
            const double q_mass = most - cells.spread[i] * (1 - error) + 2 * slack * most;
            g.most = std::min(g.most, bend * q_mass * k.rise * 0.125 * (1 + k.tiny));
        }
    }
    std::vector<double> curve(n + 1);
    double beyond = cells.point[n];  // P-mass on a point and right of it
    for (std::size_t i = n; i-- > 0;) {
        curve[i] = gaps[i].right + k.back * (k.fall * beyond + std::exp(-k.h) * curve[i + 1]);
        beyond = k.back * beyond + cells.point[i] + mass[i];
    }
    const std::vector<double> drop = compute_grid_profile_drops(gaps, curve, k);
    std::vector<double> w(n + 1);
    double carried = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const double right = gaps[i].right / k.fall;
        const double own = carried + (mass[i] - right) + cells.point[i] * std::max(0.0, 1 - cells.point_error[i]);
        const double next = drop[i + 1] * k.back, before = i > 0 ? drop[i - 1] * k.lean : drop[0];
        w[i] = own - (next - drop[i]) / k.rise + (drop[i] - before) / k.fall;
        w[i] -= k.tiny * (own + (next + 2 * drop[i] + before) / k.fall);
        carried = right * k.lean;
    }
    // The last entry of `drop` is zero. If the entry before it equals the spread of the last cell, the last point has
    // no weight but its own mass.
    const double beyond_spread = std::max(0.0, drop[n - 1] - gaps[n - 1].right * (1 + k.tiny));
    w[n] = cells.point[n] * std::max(0.0, 1 - cells.point_error[n]) * (1 - 4 * u) -
           beyond_spread * k.lean / k.fall * (1 + k.tiny);
    for (const double x : w)
        if (!std::isfinite(x)) return std::vector<double>(cells.point.size());  // weights out of range
    make_grid_profile_convex(w, k);
    w.resize(cells.mass.size() + 1);
    return w;
}

double log_grid_moment(const Weights& weights, double further, double h) {
    // Horner's rule is applied to blocks that are so short that the powers of the ratio do not overflow.
    constexpr std::size_t kBlock = 64;
    const std::size_t block = std::abs(further) * h < 5 ? kBlock : 1;
    const double ratio = std::exp(std::clamp(further * h, -700.0, 700.0));
    double log_sum = -HUGE_VAL;
    for (std::size_t from = 0; from < weights.values.size(); from += block) {
        const std::size_t to = std::min(from + block, weights.values.size());
        double sum = 0;
        for (std::size_t i = to; i-- > from;) sum = sum * ratio + weights.values[i];
        if (!(sum > 0)) continue;
        const double term = std::log(sum) + further * h * static_cast<double>(from);
        const double top = std::max(log_sum, term);
        log_sum = top + std::log1p(std::exp(std::min(log_sum, term) - top));
    }
    if (!(log_sum > -HUGE_VAL)) return -HUGE_VAL;
    // The error covers 64 steps of Horner's rule, the ratio to the 64th power, and one addition for each block.
    const double blocks = static_cast<double>(weights.values.size() / block + 1);
    const double size = std::abs(further) * h * static_cast<double>(weights.values.size());
    return log_sum + (300 + 130 * std::abs(further) * h + 4 * blocks + 4 * size + 4 * std::abs(log_sum)) * u;
}

void log_grid_moments(const Weights& weights, const double* further, double h, double* log) {
    // A block of Horner's rule multiplies a sum by at most e^kMostLean < 2^462. Sums before a block are at most 2^500,
    // so no sum overflows. kBlock is the largest number of points of a block.
    constexpr double kMostLean = 320, kBlock = 64;
    const std::size_t n = weights.values.size();
    double ratio[8], sum[8], octaves[8], steepest = 0;
    for (int i = 0; i < 8; ++i) {
        const double lean = std::min(std::abs(further[i] * h), kMostLean);
        steepest = std::max(steepest, lean);
        ratio[i] = std::exp(lean);
    }
    const std::size_t block = steepest * kBlock <= kMostLean ? static_cast<std::size_t>(kBlock) : 1;
    // Horner's rule starts with the weight of the largest power of the ratio. All ratios are at least 1, so the sum
    // only grows.
    TIGHTDP_SELECT_SIMD(evaluate_grid_polynomials)(weights.values.data(), n, further[0] > 0, block, ratio, sum,
                                                   octaves);
    for (int i = 0; i < 8; ++i) {
        const double lean = further[i] * h;
        if (!(std::abs(lean) < kMostLean)) {
            log[i] = log_grid_moment(weights, further[i], h);
            continue;
        }
        log[i] = -HUGE_VAL;
        if (sum[i] == 0) continue;
        const double placed = lean < 0 ? lean * static_cast<double>(n - 1) : 0;
        const double size = static_cast<double>(n) * (8 + 4 * std::abs(lean)) + 1000;
        log[i] = std::log(sum[i]) + octaves[i] * 0.69314718055994530942 + placed;
        log[i] += (size + 4 * (std::abs(log[i]) + std::abs(placed) + octaves[i])) * u;
    }
}

}  // namespace tightdp::grid
