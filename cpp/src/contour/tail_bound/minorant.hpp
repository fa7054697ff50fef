// Decay of |M(c + is) / M(c)|: a lower bound on 1 - |phi(s)| for all s in an interval.
// docs/theory/contour.md, section 3.
//
// The tilted law of one privacy loss has at least the mass of a minorant: cells with uniform density. Cells
// are merged into groups that are short beside the wavelength 2 pi / s; a group of mass m, length l and
// variance v loses at least m (1 - sqrt(1 - (4 v / l^2) sin^2(s l / 2))) of its modulus.
#pragma once

#include <cmath>
#include <cstdint>

#include "contour/compare.hpp"
#include "tightdp/config.hpp"

namespace tightdp::contour {

// Uniform mass on [left, left + length] of the privacy loss.
struct Cell {
    double mass, left, length;
};

// sup of |sin(y)/y| over y >= x > 0: up to pi it falls; then its largest value is at y = 4.4934..., where tan
// y = y, and is 1/sqrt(1 + y^2) = .217234 (contour.md 3.2), rounded up. Beyond 4.6 the envelope 1/x is lower.
TIGHTDP_HD inline double sinc_supremum(double x) noexcept {
    constexpr double side_lobe = 0.21724;
    if (x > 1 / side_lobe) return 1 / x;
    const double main_lobe = x > 1e-4 ? std::sin(x) / x : 1 - x * x / 6 * (1 - 1e-8);
    return main_lobe > side_lobe ? main_lobe : side_lobe;
}

// Decay of a group; first, second: its moments about its left end.
TIGHTDP_HD inline double group_decay(double mass, double first, double second, double length, double s) noexcept {
    if (!(mass > 0) || !(length > 0)) return 0;
    const double mean = first / mass;
    // The subtraction cancels at most 1e-13 of length^2.
    const double variance = second / mass - mean * mean - 1e-13 * length * length;
    if (!(variance > 0)) return 0;
    const double sine = std::sin(0.5 * s * length);
    double x = 4 * variance * (sine / length) * (sine / length);
    if (x > 1) x = 1;
    return mass * x / (1 + std::sqrt(1 - x));
}

// Lower bound on 1 - |phi(s)| for every s in [s_low, s_high]; s_high = inf is allowed. Cells run left to
// right. Loses a factor 1 - 1e-6 for its own rounding.
TIGHTDP_HD inline double decay(const Cell* cells, std::int64_t n, double s_low, double s_high) noexcept {
    constexpr double pi = 3.14159265358979323846;
    double total = 0, mass = 0, first = 0, second = 0, start = 0, end = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const Cell& cell = cells[i];
        const double right = cell.left + cell.length;
        if (mass > 0 && (right - start) * s_high > pi) {
            total += group_decay(mass, first, second, end - start, s_low);
            mass = first = second = 0;
        }
        if (cell.length * s_high > pi) {
            total += cell.mass * (1 - sinc_supremum(0.5 * s_low * cell.length));
            continue;
        }
        if (mass == 0) start = cell.left;
        const double d = cell.left - start + 0.5 * cell.length;
        mass += cell.mass;
        first += cell.mass * d;
        second += cell.mass * (d * d + cell.length * cell.length / 12);
        end = right;
    }
    total += group_decay(mass, first, second, end - start, s_low);
    return total * (1 - 1e-6);
}

// Section 3.4: the density of the loss is f = phi W^beta sigma / (r M) and d ln f / du = -u - 1/sigma + (beta
// + 1) r / sigma, so that every mode lies where the two linear bounds of that change sign, there are at most
// two (one where beta <= -1), and between nodes f exceeds the nearer one at most by e^{B h^2 / 8}, B bounding
// the second derivative of ln f. b: beta + 1; peak: the largest weight over posterior weight of a node; sum:
// of the weights.
TIGHTDP_HD inline double log_density_slope(double u, double b, double inverse_sigma, double posterior) noexcept {
    return -u - inverse_sigma + b * posterior * inverse_sigma;
}
// Whether nodes cover every mode. Right of them f falls: range_right() saw to it. Under "add" b < 1, and the
// right end is past 0.
TIGHTDP_HD inline bool covers_modes(double b, double inverse_sigma, double first_u, double first_posterior,
                                    double last_u, double last_posterior) noexcept {
    if (b > 0) return first_u < -inverse_sigma;
    return log_density_slope(first_u, b, inverse_sigma, first_posterior) > 0 &&
           log_density_slope(last_u, b, inverse_sigma, last_posterior) < 0;
}
// A posterior weight that underflowed makes the bound void, not small.
TIGHTDP_HD inline double higher_peak(double peak, double weight, double posterior) noexcept {
    const double density = weight / posterior;
    return density >= 0 ? larger(peak, density) : HUGE_VAL;
}
TIGHTDP_HD inline double density_variation(double b, double sigma, double h, double peak, double sum) noexcept {
    const double inverse = 1 / sigma, bend = 1 + std::fabs(b) * 0.25 * inverse * inverse;
    return (b <= 0 ? 2 : 4) * peak * sigma / h * std::exp(bend * h * h / 8) / (sum * (1 - 1e-3));
}

// Section 3.3. Where the mass is known to reach the resolution, cells of the minorant from `low` to `high`:
// steps of .15 keep 9/10 of the mass under it; .2 sigma keeps the density even across a cell.
TIGHTDP_HD inline double cell_step(double sigma, double low, double high, std::int64_t most_cells) noexcept {
    return larger(smaller(0.15, 0.2 * sigma), (high - low) / static_cast<double>(most_cells));
}
// place() kept the relative error of the sum under 1e-3.
TIGHTDP_HD inline double most_mass(double sum) noexcept {
    return sum * (1 + 1e-3);
}

struct CellEnd {
    double loss, posterior, density;
};

// The cell between two nodes of step h / sigma in the logarithm, before it is mirrored; no mass where nothing
// is known.
TIGHTDP_HD inline Cell minorant_cell(const CellEnd& from, const CellEnd& to, double log_step, double beta, bool add,
                                     double total) noexcept {
    const double length = log_step * from.posterior;
    // ln density is concave under "add"; under "remove" it is a chord plus a tangent away from that.
    double right = to.density;
    if (!add) right *= larger(0.0, 1 - beta * (to.loss - from.loss - length) * (1 + 1e-9) - 1e-9);
    const double mass = smaller(from.density, right) * from.posterior / to.posterior / total;
    return {mass > 0 && length > 0 ? mass : 0, from.loss, length};
}

// Section 3.5: a bound on what the transform of the minorant loses of its mass, within half a spacing of s.
// squares, spread: sums of mass times length^2, and times the distance from the centre of mass. 1e-9: the
// rounding of these sums.
TIGHTDP_HD inline double sampled_decay(double total, double modulus, double s, double spacing, double squares,
                                       double spread) noexcept {
    const double bound = total - modulus - (s * s / 24 + 0.06 * s * spacing) * squares - 0.5 * spacing * spread - 1e-9;
    return larger(0.0, bound);
}

// A minorant of the tilted law, the total variation of its density, and sampled[m], which bounds 1 - |phi|
// from below within half a spacing of m * spacing.
struct DecayView {
    const Cell* cells;
    std::int64_t count;
    double variation;
    const double* sampled;
    std::int64_t samples;
    double spacing;
};

// Lower bound on -ln |phi(s)| for every s in [s_low, s_high]; s_high = inf is allowed.
TIGHTDP_HD inline double log_decay(const DecayView& view, double s_low, double s_high) noexcept {
    double least = decay(view.cells, view.count, s_low, s_high);
    const double last = view.samples == 0 ? HUGE_VAL : std::floor(s_high / view.spacing + 0.5);
    if (last < static_cast<double>(view.samples)) {
        double inside = 1;
        for (std::int64_t m = static_cast<std::int64_t>(s_low / view.spacing + 0.5);
             m <= static_cast<std::int64_t>(last); ++m)
            inside = smaller(inside, view.sampled[m]);
        least = larger(least, inside);
    }
    return larger(least, std::log(s_low / view.variation));
}

}  // namespace tightdp::contour
