// The trapezoid rule for M(z) = E[e^{zY}], where Y is the privacy loss of one step and z = c + is a point of the
// contour on which M is inverted (docs/theory/contour.md, section 4). c > 0 is the real part of z, and s its imaginary
// part.
//
// The rule sums over nodes u, values of a standard normal variable with the density phi. Let W(u) = 1 - q + q
// e^{u/sigma - 1/(2 sigma^2)}, the likelihood ratio of the mechanism at u. For "remove", the integrand is phi(u)
// W(u)^{beta + is} with beta = 1 + c. For "add", the integrand is phi(u) W(u)^{beta - is} with beta = -c. Both
// integrands are analytic in the strip |Im u| < pi sigma. The tilted density is the integrand at s = 0, divided by
// M(c).
#pragma once

#include <cmath>

#include "contour/composition.hpp"
#include "tightdp/config.hpp"

namespace tightdp::contour {

inline constexpr double kPi = 3.14159265358979323846;

// Returns the factor by which the bounds on the phase of the loss, and on the derivative of ln |W^beta| by u, are
// multiplied. It is 2 for "replace" with q > 1/2, and 1 otherwise. The loss for "replace" is ln W(u) - ln W(-u), and
// the phases of its two terms may add up (contour.md, section 8).
TIGHTDP_HD inline double replace_phase_factor(const Pair& p) noexcept {
    return p.is_contour_replace() && p.q > 0.5 ? 2.0 : 1.0;
}

// Returns the logarithm of a bound on the L1 norm of the integrand at Im u = y, for 0 < y < pi sigma. The norm is
// divided by M(c) and by e^{s y / sigma}. For "add", |W| may be smaller than on the real line, so the bound has a
// factor cos(y / (2 sigma))^{-c}. At y <= pi sigma / 2, Re W >= 1 - q, and the factor (1 - q)^{-c} may be used instead
// (contour.md, section 4.2).
TIGHTDP_HD inline double quadrature_strip_penalty(const Pair& p, double c, double y) noexcept {
    if (p.direction == Direction::remove) return 0.5 * y * y;
    const double turn = -c * std::log(std::cos(0.5 * y / p.sigma));
    const double half =
        y <= 0.5 * kPi * p.sigma * (1 - 1e-12) ? -c * std::log1p(-p.q) + (p.is_contour_replace() ? 0.41 : 0.0) : HUGE_VAL;
    return 0.5 * y * y + (turn < half ? turn : half);
}

// Returns a bound on the error of the rule with the step h, relative to M(c), for imaginary parts of z up to s. The
// bound uses the strip |Im u| <= y, and is 2 e^{penalty + s y / sigma} / (e^{2 pi y / h} - 1) with the penalty of
// quadrature_strip_penalty().
TIGHTDP_HD inline double quadrature_error_at(const Pair& p, double c, double s, double h, double y) noexcept {
    const double gain = 2 * kPi * y / h;
    return 2 * std::exp(quadrature_strip_penalty(p, c, y) + replace_phase_factor(p) * s * y / p.sigma - gain) /
           -std::expm1(-gain);
}

// Number of half-widths y of strips that are tried, each 4/5 of the previous half-width.
inline constexpr int kStripTrials = 32;

// Returns the first half-width y that is tried. The integrand is analytic only for y < pi sigma. Beyond
// y = gaussian_optimum, the factor e^{y^2/2} of the bound costs more than a larger y gains.
TIGHTDP_HD inline double widest_quadrature_strip(const Pair& p, double gaussian_optimum) noexcept {
    const double strip = kPi * p.sigma * (1 - 1.0 / 64);
    return strip < gaussian_optimum ? strip : gaussian_optimum;
}

// Returns the largest step h with which some strip bounds the relative error by e^{-log_inverse}, for imaginary parts
// of z up to s.
TIGHTDP_HD inline double node_step(const Pair& p, double c, double s, double log_inverse) noexcept {
    const double target = log_inverse + std::log(2.0) + 1e-6;
    double y = widest_quadrature_strip(p, std::sqrt(2 * target));
    double frequency = HUGE_VAL;  // 2 pi / h
    for (int i = 0; i < kStripTrials; ++i, y *= 0.8) {
        const double needed = (target + quadrature_strip_penalty(p, c, y)) / y + replace_phase_factor(p) * s / p.sigma;
        if (needed < frequency) frequency = needed;
    }
    return 2 * kPi / frequency;
}

// Returns a bound on the relative error of the rule with the step h, for imaginary parts of z up to s. The result is
// the smallest of the bounds for the strips that are tried.
TIGHTDP_HD inline double quadrature_error(const Pair& p, double c, double s, double h) noexcept {
    const double optimum = 2 * kPi / h - replace_phase_factor(p) * s / p.sigma;
    if (!(optimum > 0)) return HUGE_VAL;
    double y = widest_quadrature_strip(p, optimum);
    double least = HUGE_VAL;
    for (int i = 0; i < kStripTrials; ++i, y *= 0.8) {
        const double error = quadrature_error_at(p, c, s, h, y);
        if (error < least) least = error;
    }
    return least * (1 + 1e-9);
}

// Bounds the contribution to M(c) of all u outside of the range of the nodes, relative to M(c). In this function and in
// quadrature_right_end(), z is not the argument of M, but a margin. This margin is the distance of the ends of the
// range from the bulk of the tilted density, in standard deviations of u (contour.md, section 4.3). The range begins at
// quadrature_left_end() - z. It ends at quadrature_right_end(), which includes the margin.
TIGHTDP_HD inline double quadrature_range_error(const Pair& p, double c, double z) noexcept {
    const double peak = p.is_contour_add() ? std::sqrt(1 + c / (4 * p.sigma * p.sigma)) : 1.0;
    return std::exp(-0.5 * z * z) * (2 + peak);
}

// Returns the margin with which quadrature_range_error is at most e^{-log_inverse}.
TIGHTDP_HD inline double quadrature_margin(const Pair& p, double c, double log_inverse) noexcept {
    const double peak = p.is_contour_add() ? std::sqrt(1 + c / (4 * p.sigma * p.sigma)) : 1.0;
    return std::sqrt(2 * (log_inverse + std::log(2 + peak)));
}

// Returns the posterior weight q e^t / W of the shifted component at u, where t = u/sigma - 1/(2 sigma^2).
TIGHTDP_HD inline double mgf_posterior_weight(const Pair& p, double u) noexcept {
    const double t = u / p.sigma - 0.5 / (p.sigma * p.sigma);
    return t > 0 ? p.q / (p.q + (1 - p.q) * std::exp(-t)) : p.q * std::exp(t) / (1 - p.q + p.q * std::exp(t));
}

// Returns the right end b of the nodes (contour.md, section 4.3). For "add", the tilted density has its mass further
// left than phi, and b = z. For "replace", b is replace_phase_factor() (1 + c)/sigma + z. For "remove", b = (1 +
// c)/sigma + z is always far enough. If q is small, the smaller end b = v + z is often enough, with v = (1 + c)
// r(b)/sigma and the posterior weight r. The smaller end is used under two conditions on the derivative u - (1 + c)
// r(u)/sigma of -ln(phi W^beta). The derivative must be concave between b and (1 + c)/sigma + z, as it is for r <= 1/2.
// It must also be at least 1 at (1 + c)/sigma + z, and at least z at b.
TIGHTDP_HD inline double quadrature_right_end(const Pair& p, double c, double z) noexcept {
    if (p.is_contour_add()) return z;
    const double pull = (1 + c) * replace_phase_factor(p) / p.sigma, farthest = pull + z;
    if (p.is_contour_replace() || mgf_posterior_weight(p, farthest) > 0.5) return farthest;
    double b = z;
    for (int i = 0; i < 30; ++i) {
        const double next = z + pull * mgf_posterior_weight(p, b) * (1 + 1e-9);
        if (next <= b) break;
        // b is a little larger than the solution of b = v + z, so that b - v >= z holds in spite of rounding.
        b = next + 1e-3;
    }
    const double slope = b - pull * mgf_posterior_weight(p, b);
    const double slope_far = farthest - pull * mgf_posterior_weight(p, farthest);
    return b < farthest && slope >= z && slope_far >= 1 ? b : farthest;
}

// Returns a point at or left of the mode of phi W^{-c} for "add", and 0 otherwise. This point is a v <= 0 with
// c r(v) / sigma <= |v|, where r is the posterior weight. A bisection finds v, and returns the end of its interval at
// which this condition holds.
TIGHTDP_HD inline double quadrature_left_end(const Pair& p, double c) noexcept {
    if (!p.is_contour_add()) return 0.0;
    double low = -c / p.sigma, high = 0.0;  // the condition holds at `low` and may fail at `high`
    for (int i = 0; i < 60 && high - low > 0.25; ++i) {
        const double v = 0.5 * (low + high);
        if (c * mgf_posterior_weight(p, v) / p.sigma * (1 + 1e-9) <= -v)
            low = v;
        else
            high = v;
    }
    return low;
}

}  // namespace tightdp::contour
