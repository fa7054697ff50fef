// Lower bounds on 1 - |phi(s)| for all s in an interval. Here phi(s) = M(c + is) / M(c), and M is the moment generating
// function of the privacy loss of one step (docs/theory/contour.md, section 3).
//
// The distribution of the privacy loss y is tilted to c by the factor e^{cy} / M(c). A minorant is a density below the
// tilted one, with a mass of less than 1. It is constant on each of a number of cells. Cells are merged into groups
// that are short compared with the wavelength 2 pi / s. A group with the mass m, the length l and the variance v
// reduces |phi(s)| by at least
//     m (1 - sqrt(1 - (4 v / l^2) sin^2(s l / 2))).
#pragma once

#include <cmath>
#include <cstdint>

#include "contour/min_max_clamp.hpp"
#include "tightdp/config.hpp"

namespace tightdp::contour {

// A mass that is uniform on the interval [left, left + length] of privacy losses.
struct Cell {
    double mass, left, length;
};

// Returns an upper bound on |sin(y)/y| over all y >= x > 0. The quotient falls for y up to pi (the main lobe). Beyond
// pi (the side lobes), its largest value is 1/sqrt(1 + y^2) = .217234 at y = 4.4934..., where tan y = y (contour.md,
// section 3.2).
TIGHTDP_HD inline double bound_minorant_sinc(double x) noexcept {
    constexpr double side_lobe = 0.21724;
    if (x > 1 / side_lobe) return 1 / x;
    const double main_lobe = x > 1e-4 ? std::sin(x) / x : 1 - x * x / 6 * (1 - 1e-8);
    return main_lobe > side_lobe ? main_lobe : side_lobe;
}

// Returns a lower bound on the amount by which a group reduces |phi(s)|. `first` and `second` are the first and the
// second moment of the group about its left end.
TIGHTDP_HD inline double minorant_group_decay(double mass, double first, double second, double length,
                                              double s) noexcept {
    if (!(mass > 0) || !(length > 0)) return 0;
    const double mean = first / mass;
    // The subtraction loses at most 1e-13 length^2 by cancellation.
    const double variance = second / mass - mean * mean - 1e-13 * length * length;
    if (!(variance > 0)) return 0;
    const double sine = std::sin(0.5 * s * length);
    double x = 4 * variance * (sine / length) * (sine / length);
    if (x > 1) x = 1;
    return mass * x / (1 + std::sqrt(1 - x));
}

// Returns a lower bound on 1 - |phi(s)| for every s in [s_low, s_high], where s_high = inf is allowed. Cells are in
// ascending order. The factor 1 - 1e-6 covers the rounding errors of this function.
TIGHTDP_HD inline double minorant_decay(const Cell* cells, std::int64_t n, double s_low, double s_high) noexcept {
    constexpr double pi = 3.14159265358979323846;
    double total = 0, mass = 0, first = 0, second = 0, start = 0, end = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const Cell& cell = cells[i];
        const double right = cell.left + cell.length;
        if (mass > 0 && (right - start) * s_high > pi) {
            total += minorant_group_decay(mass, first, second, end - start, s_low);
            mass = first = second = 0;
        }
        if (cell.length * s_high > pi) {
            total += cell.mass * (1 - bound_minorant_sinc(0.5 * s_low * cell.length));
            continue;
        }
        if (mass == 0) start = cell.left;
        const double d = cell.left - start + 0.5 * cell.length;
        mass += cell.mass;
        first += cell.mass * d;
        second += cell.mass * (d * d + cell.length * cell.length / 12);
        end = right;
    }
    total += minorant_group_decay(mass, first, second, end - start, s_low);
    return total * (1 - 1e-6);
}

// The next functions bound the total variation V of the density of the loss, the sum of all its rises and falls. V
// gives the bound |phi(s)| <= V / s (contour.md, section 3.4). As a function of the Gaussian variable u, this density
// is f = n(u) W^beta sigma / (r M). Here n(u) is the normal density, and W = 1 - q + q e^t with t = u/sigma - 1/(2
// sigma^2). The posterior weight r is q e^t / W. The exponent beta is 1 + c for "remove" and -c for "add". The slope is
// d ln f / du = -u - 1/sigma + (beta + 1) r/sigma. Since 0 <= r <= 1, the slope lies between two linear functions of u.
// So every mode of f lies between the zeros of these functions. There are at most two modes, and only one if beta <=
// -1. At a mode f is at most e^{B h^2 / 8} times its value at the nearest node. Here B bounds the second derivative of
// ln f, and h is the distance between nodes.
//
// In the functions, b is beta + 1. Each node has a weight, proportional to n(u) W^beta, and a posterior weight. `peak`
// is the largest quotient of a node's weight and its posterior weight, and `sum` is the sum of the weights.
TIGHTDP_HD inline double tail_density_slope(double u, double b, double inverse_sigma, double posterior) noexcept {
    return -u - inverse_sigma + b * posterior * inverse_sigma;
}
// Tells whether the nodes cover every mode. Right of the nodes f falls, because quadrature_right_end() chose their
// right end. For "add" the right end is larger than 0 and b < 1, so the slope is negative there.
TIGHTDP_HD inline bool minorant_nodes_cover_modes(double b, double inverse_sigma, double first_u,
                                                  double first_posterior, double last_u,
                                                  double last_posterior) noexcept {
    if (b > 0) return first_u < -inverse_sigma;
    return tail_density_slope(first_u, b, inverse_sigma, first_posterior) > 0 &&
           tail_density_slope(last_u, b, inverse_sigma, last_posterior) < 0;
}
// Returns the larger of `peak` and weight / posterior. If the posterior weight underflowed, the result is infinite,
// which makes the bound useless but not wrong.
TIGHTDP_HD inline double tail_density_peak(double peak, double weight, double posterior) noexcept {
    const double density = weight / posterior;
    return density >= 0 ? max_value(peak, density) : HUGE_VAL;
}
TIGHTDP_HD inline double tail_density_variation(double b, double sigma, double h, double peak, double sum) noexcept {
    const double inverse = 1 / sigma, bend = 1 + std::fabs(b) * 0.25 * inverse * inverse;
    return (b <= 0 ? 2 : 4) * peak * sigma / h * std::exp(bend * h * h / 8) / (sum * (1 - 1e-3));
}

// Returns the width of the cells of the minorant between `low` and `high`, in units of u (contour.md, section 3.3).
// Cells of width .15 keep 9/10 of the mass. Across a cell of at most .2 sigma the density varies little.
TIGHTDP_HD inline double minorant_cell_step(double sigma, double low, double high, std::int64_t most_cells) noexcept {
    return max_value(min_value(0.15, 0.2 * sigma), (high - low) / static_cast<double>(most_cells));
}
// Returns an upper bound on the total mass. `sum` is the sum of the weights of the nodes. SampledMgf::place_nodes()
// chose the nodes so that the relative error of this sum is less than 1e-3.
TIGHTDP_HD inline double bound_minorant_mass(double sum) noexcept {
    return sum * (1 + 1e-3);
}

// Values at the node at one end of a cell: the loss ln W, the posterior weight, and the node's weight (`density`) in
// the tilted distribution.
struct CellEnd {
    double loss, posterior, density;
};

// Returns the cell between two nodes, before it is mirrored for "add". `log_step` is h / sigma. If no positive lower
// bound on the density is known, the cell has the mass 0.
TIGHTDP_HD inline Cell minorant_cell(const CellEnd& from, const CellEnd& to, double log_step, double beta, bool add,
                                     double total) noexcept {
    const double length = log_step * from.posterior;
    // The logarithm of the density is concave for "add". For "remove", this logarithm has a convex part, which is
    // bounded below by a tangent, and a rest, which is bounded below by a chord.
    double right = to.density;
    if (!add) right *= max_value(0.0, 1 - beta * (to.loss - from.loss - length) * (1 + 1e-9) - 1e-9);
    const double mass = min_value(from.density, right) * from.posterior / to.posterior / total;
    return {mass > 0 && length > 0 ? mass : 0, from.loss, length};
}

// Returns a lower bound on 1 - |phi| within half a spacing of s, from the modulus of the transform of the minorant at s
// (contour.md, section 3.5). `squares` is the sum of mass times length^2, and `spread` the sum of mass times the
// distance from the centre of mass. The term 1e-9 covers the rounding errors of these sums.
TIGHTDP_HD inline double minorant_sampled_decay(double total, double modulus, double s, double spacing, double squares,
                                                double spread) noexcept {
    const double bound = total - modulus - (s * s / 24 + 0.06 * s * spacing) * squares - 0.5 * spacing * spread - 1e-9;
    return max_value(0.0, bound);
}

// A view of all that bounds the decay: the cells of the minorant, a bound on the total variation of the tilted density,
// and samples. sampled[m] is a lower bound on 1 - |phi| within half a spacing of s = m * spacing.
struct DecayView {
    const Cell* cells;
    std::int64_t count;
    double variation;
    const double* sampled;
    std::int64_t samples;
    double spacing;
};

// Returns a lower bound on -ln |phi(s)| for every s in [s_low, s_high], where s_high = inf is allowed.
TIGHTDP_HD inline double minorant_log_decay(const DecayView& view, double s_low, double s_high) noexcept {
    double least = minorant_decay(view.cells, view.count, s_low, s_high);
    const double last = view.samples == 0 ? HUGE_VAL : std::floor(s_high / view.spacing + 0.5);
    if (last < static_cast<double>(view.samples)) {
        double inside = 1;
        for (std::int64_t m = static_cast<std::int64_t>(s_low / view.spacing + 0.5);
             m <= static_cast<std::int64_t>(last); ++m)
            inside = min_value(inside, view.sampled[m]);
        least = max_value(least, inside);
    }
    return max_value(least, std::log(s_low / view.variation));
}

}  // namespace tightdp::contour
