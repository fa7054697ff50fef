// From the masses of cells to weights of points (docs/theory/grid.md, sections 2 and 3).
#include <algorithm>
#include <cmath>

#include "grid_lattice.hpp"

namespace tightdp::grid {
namespace {

constexpr double u = kUnitRoundoff;

// Constants of one lattice. Quantities of a cell or point are kept tilted at its own (left) point, so what passes to
// the next point is multiplied by `lean`.
struct Steps {
    explicit Steps(const Lattice& l)
        : h(l.h), tilt(l.tilt), lean(std::exp(l.tilt * l.h)), back(std::exp(-l.tilt * l.h)), fall(-std::expm1(-l.h)),
          rise(std::expm1(l.h)), tiny((16 + 8 * l.tilt * l.h) * u) {}

    double h, tilt, lean, back;
    double fall, rise;  // 1 - e^{-h}, e^h - 1
    double tiny;        // more than the roundings of any one weight
};

// Removes the kinks where the piecewise linear curve with these weights is not convex, each time by the chord between
// its neighbours, which lies below (grid.md, Lemma 5). Rounded towards less.
void make_convex(std::vector<double>& w, const Steps& k) {
    const double less = 1 + k.tiny;
    const std::size_t last = w.size() - 1;
    std::vector<std::size_t> kept;  // points that stay, from the left
    for (std::size_t i = 0; i < last; ++i) {
        if (w[i] >= 0) {
            if (w[i] > 0) kept.push_back(i);
            continue;
        }
        std::size_t at = i;
        double debt = w[i];  // at point `at`, to be shared by the neighbours
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
    // In exact arithmetic the last weight is not negative; what rounding left is paid for by dropping points
    // (grid.md, Lemma 6).
    if (w[last] >= 0) return;
    double owed = -w[last];
    std::size_t from = last;
    w[last] = 0;
    while (owed > 0 && !kept.empty()) {
        const std::size_t l = kept.back();
        kept.pop_back();
        owed *= std::exp(-k.tilt * (from - l) * k.h) * less;  // tilted at l from here on
        from = l;
        const double has = w[l];
        w[l] = 0;
        const double next = kept.empty() ? HUGE_VAL : (l - kept.back()) * k.h;
        const double end = kept.empty() ? HUGE_VAL : (last - kept.back()) * k.h;
        const double at_next = owed + has * std::expm1(-next) / -std::expm1(-end);
        owed = std::max({0.0, (owed - has) * less, at_next * less});
    }
}

}  // namespace

std::vector<double> pessimistic(const Cells& cells, const Lattice& lattice, double slack) {
    const Steps k(lattice);
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

std::vector<double> optimistic(const Cells& cells, const Lattice& lattice, double slack) {
    const Steps k(lattice);
    const std::size_t n = cells.mass.size();
    // Of each cell: mass and spread, rounded so that neither mass nor mean loss grows, and how far the chord can be above the curve.
    std::vector<double> mass(n), spread(n), gap(n);
    for (std::size_t i = 0; i < n; ++i) {
        const double error = cells.error[i], most = cells.mass[i] * (1 + error);
        if (!(error < 0.1) || !(most > 0)) continue;
        mass[i] = cells.mass[i] * (1 - error);
        spread[i] = std::clamp(cells.spread[i] * (1 - 4 * error) - 2 * slack * most, 0.0, mass[i] * k.fall);
        gap[i] = spread[i] * std::max(0.0, 1 - spread[i] / (mass[i] * k.fall)) + 4 * u * spread[i];
        if (cells.bend[i] < 0.5) {
            const double bend = 1 + cells.bend[i] * (1 + cells.bend[i]);  // above e^bend
            gap[i] = std::min(gap[i], bend * (most - cells.spread[i] * (1 - error) + 2 * slack * most) * k.rise * 0.125 * (1 + 8 * u));
        }
    }
    // How far below the curve the chords are hung at each point.
    std::vector<double> drop(n + 1);
    for (std::size_t i = n; i-- > 0;) {
        const double next = drop[i + 1] * k.back;
        double needed = gap[i];
        if (next < gap[i]) needed = std::max(gap[i], spread[i] - next * (spread[i] / gap[i] - 1));
        const double wanted = i > 0 ? std::min(gap[i - 1] * k.lean, spread[i]) : 0;
        drop[i] = std::max(needed, wanted) * (1 + k.tiny);
    }
    std::vector<double> w(n + 1);
    double carried = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const double right = spread[i] / k.fall;
        const double own = carried + (mass[i] - right) + cells.point[i] * std::max(0.0, 1 - cells.point_error[i]);
        const double next = drop[i + 1] * k.back, before = i > 0 ? drop[i - 1] * k.lean : drop[i];
        w[i] = own - (next - drop[i]) / k.rise + (drop[i] - before) / k.fall;
        w[i] -= k.tiny * (own + (next + 2 * drop[i] + before) / k.fall);
        carried = right * k.lean;
    }
    // The last drop is zero and the one before takes all of the last cell's spread: nothing but the point remains.
    w[n] = cells.point[n] * std::max(0.0, 1 - cells.point_error[n]) * (1 - 4 * u);
    make_convex(w, k);
    return w;
}

}  // namespace tightdp::grid
