// One Poisson-subsampled Gaussian on the contour: where its nodes lie, and what their sums say of its moment
// generating function and of its decay, with which error. The formulas of sampled_mgf.cpp (loops of the
// host), batch_mgf.hpp and tail_bound/batch_minorant.hpp (those of a device). docs/theory/contour.md, sections 3 to 5.
#pragma once

#include <cmath>

#include "contour/compare.hpp"
#include "contour/inversion/saddle.hpp"
#include "contour/tail_bound/minorant.hpp"
#include "quadrature.hpp"

namespace tightdp::contour {

// Sums over nodes with a_i = h phi(u_i) e^{beta L_i - shift}.
struct Moments {
    double sum = 0;        // sum a
    double minus_one = 0;  // sum (a - h phi), shift = 0 only
    double first = 0;      // sum a L
    double second = 0;     // sum a L^2
    // For the rounding bound, in units of 2^-53:
    double abs_first = 0;      // sum a |L|
    double alpha = 0;          // sum a alpha_i, alpha_i the relative error of a_i
    double alpha_first = 0;    // sum a alpha_i |L|
    double eta = 0;            // sum a eta_i, eta_i the error of L_i
    double minus_one_err = 0;  // error of minus_one
};

// ln M at a real abscissa with bounds on its errors.
struct CertifiedLogMgf {
    double value = 0;
    double rule = 0;  // of the trapezoid rule over u
    double rounding = 0;
    TIGHTDP_HD double upper() const noexcept { return value + rule + rounding; }
};

// Under "add", ln M(c) <= c ln(1/(1-q)) and under "remove" ln M(c) <= c (c + 1) / (2 sigma^2): below this no
// term of the sum overflows and M - 1 is summed directly.
inline constexpr double kDirect = 600;
TIGHTDP_HD inline double most_log_mgf(double sigma, double q, double c, Pair pair) noexcept {
    if (pair.kind == Pair::add) return -c * std::log1p(-q);
    return (pair.kind == Pair::replace ? 2 : 0.5) * c * (c + 1) / (sigma * sigma);
}

// Step, and the first and last node in steps.
struct Extent {
    double h, margin, left, right;
};

// Nodes that serve abscissae up to c_most + is, |s| <= s_most, with relative error e^{-log_inverse} each for
// quadrature and range.
TIGHTDP_HD inline Extent extent(double sigma, double q, Pair pair, double c_most, double s_most,
                                double log_inverse) noexcept {
    Extent e;
    e.h = node_step(sigma, q, c_most, pair, s_most, log_inverse);
    e.margin = range_margin(sigma, c_most, pair, log_inverse);
    // One more node on the right: the tail of the sum is compared with an integral that starts a step
    // earlier.
    e.left = std::floor((range_left(sigma, q, c_most, pair) - e.margin) / e.h) - 1;
    e.right = std::ceil(range_right(sigma, q, c_most, pair, e.margin) / e.h) + 1;
    return e;
}

// count * ln M and its derivatives; not certified.
TIGHTDP_HD inline Cumulants cumulants_of(const Moments& m, double shift, double count, bool add) noexcept {
    const double sign = add ? -1 : 1, mean = m.first / m.sum;
    const double k0 = shift > 0 ? shift + std::log(m.sum) : std::log1p(m.minus_one);
    return {count * k0, count * sign * mean, count * larger(0.0, m.second / m.sum - mean * mean)};
}

// The relative error of the rule at a real abscissa.
TIGHTDP_HD inline double real_rule_error(double sigma, double q, Pair pair, double c, double h,
                                         double margin) noexcept {
    return quadrature_error(sigma, q, c, pair, 0, h) + range_error(sigma, c, pair, margin) +
           2.1 * std::exp(-2 * (kPi / h) * (kPi / h));
}

// count * ln M from sums over so many nodes.
TIGHTDP_HD inline CertifiedLogMgf log_mgf_of(const Moments& m, double shift, double rule, long nodes,
                                             double count) noexcept {
    const double sums = static_cast<double>(nodes);
    double value, rounding;
    if (shift > 0) {
        value = shift + std::log(m.sum);
        rounding = (m.alpha / m.sum + sums + 8) * kUnitRoundoff + 4 * kUnitRoundoff * std::fabs(value);
    } else {
        value = std::log1p(m.minus_one);
        rounding = m.minus_one_err * (1 + sums / 42) / (1 + m.minus_one) * kUnitRoundoff +
                   4 * kUnitRoundoff * std::fabs(value);
    }
    // |ln(1 + x)| <= 1.01 |x| for the small relative errors that are of use; larger ones give an infinite
    // bound.
    if (!(rule + rounding < 0.01)) return {count * value, HUGE_VAL, HUGE_VAL};
    return {count * value, count * 1.02 * rule, count * 1.02 * rounding};
}

// The bound on the error of the rule that all abscissae c + is, |s| <= s_most, share, relative to M(c).
TIGHTDP_HD inline double transform_rule_error(double sigma, double q, Pair pair, double c, double s_most, double h,
                                              double margin) noexcept {
    return 2.2 * (quadrature_error(sigma, q, c, pair, s_most, h) + range_error(sigma, c, pair, margin));
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
TIGHTDP_HD inline double cell_step(double sigma, double low, double high, long most_cells) noexcept {
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
    long count;
    double variation;
    const double* sampled;
    long samples;
    double spacing;
};

// Lower bound on -ln |phi(s)| for every s in [s_low, s_high]; s_high = inf is allowed.
TIGHTDP_HD inline double log_decay(const DecayView& view, double s_low, double s_high) noexcept {
    double least = decay(view.cells, view.count, s_low, s_high);
    const double last = view.samples == 0 ? HUGE_VAL : std::floor(s_high / view.spacing + 0.5);
    if (last < static_cast<double>(view.samples)) {
        double inside = 1;
        for (long m = static_cast<long>(s_low / view.spacing + 0.5); m <= static_cast<long>(last); ++m)
            inside = smaller(inside, view.sampled[m]);
        least = larger(least, inside);
    }
    return larger(least, std::log(s_low / view.variation));
}

}  // namespace tightdp::contour
