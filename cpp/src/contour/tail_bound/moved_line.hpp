// Bounds on the decay of phi(s) = M(c + is) / M(c), by moving the line of integration of the Gaussian variable u into
// the complex plane (docs/theory/contour.md, section 3.6). M is the moment generating function of the privacy loss of
// one step, with the integrand phi(u) W^beta of quadrature.hpp. There W = 1 - q + q e^t with
// t = u/sigma - 1/(2 sigma^2), and beta is 1 + c for "remove" and -c for "add". The posterior weight is q e^t / W.
//
// The line is moved at u by y(u) = height * p(u). Here p = kappa r / (1 - r + kappa r) is a logistic function of u, and
// r is the posterior weight. choose_line_move() chooses the numbers height and kappa for a given imaginary part S. Let
// F be the integrand of M at c + iS. Then
//     |phi(s)| <= B(S) = int |F(u + i y(u))| |1 + i y'(u)| du / M(c)   for all s >= S.
// The bound holds for all these s, because the modulus of the integrand decreases as s grows. J stands for the
// integrand of B, and J_0 for the integrand of M(c).
#pragma once

#include <cmath>
#include <cstdint>

#include "contour/mgf/quadrature.hpp"
#include "contour/min_max_clamp.hpp"
#include "runtime/dispatch.hpp"

namespace tightdp::contour {

struct MovedLine {
    double sigma, beta;  // parameters of the weight W^beta
    double most;         // largest height
    double stiffness;    // to second order, ln(J / J_0) <= stiffness y^2 / 2 - S r y / sigma
    double h, margin;    // step of the trapezoid rule, and margin of the range of its nodes
    double growth;       // upper bound on J / J_0
    double error;        // bound on the error of 1 - B from the trapezoid rule and the range of its nodes
    double slack;        // bound on the rounding error of ln(J / J_0), relative to its terms
};

// Largest fraction of the strip's half-width pi sigma by which the line is moved. The constants below hold for this
// fraction.
inline constexpr double kMovedPart = 0.333;

// Returns ln(N / M(c)), where N bounds the L1 norm of the integrand of B at Im u = +-most / 2.
TIGHTDP_HD inline double log_moved_norm(const Pair& p, double c, const MovedLine& line) noexcept {
    const double most = line.most;
    return 0.613 + quadrature_strip_penalty(p, c, 1.5 * most) + 0.585 * most * most * line.stiffness;
}

// Chooses the line for imaginary parts S >= first_s of the argument of M, for "remove" or "add". `log_inverse` is -ln
// of the intended error.
TIGHTDP_HD inline MovedLine moved_line(const Pair& p, double c, double first_s, double log_inverse) noexcept {
    MovedLine line;
    const double sigma = p.sigma;
    line.sigma = sigma;
    line.beta = p.contour_composition_weight_power(c);
    // r is used under "add" only, and is the posterior weight at or left of the mode of the tilted density.
    const double r = mgf_posterior_weight(p, quadrature_left_end(p, c));
    line.stiffness = 1 + (1 + max_value(0.0, -line.beta) * r * (1 - r)) / (sigma * sigma);
    const double farthest = mgf_posterior_weight(p, quadrature_right_end(p, c, 4));
    line.most = min_value(kMovedPart * kPi * sigma, max_value(1.0, 3 * farthest * first_s / sigma));
    const double log_norm = log_moved_norm(p, c, line) + std::log(2.0);
    const double gain = max_value(log_norm + log_inverse, 5.0);
    line.h = kPi * line.most / gain;
    const double lift = quadrature_strip_penalty(p, c, line.most) + 0.04;
    line.growth = std::exp(lift);
    line.margin = quadrature_margin(p, c, log_inverse + lift);
    line.error = std::exp(log_norm - gain) / -std::expm1(-gain) + quadrature_error(p, c, 0, line.h) +
                 quadrature_range_error(p, c, line.margin) * (2 + line.growth);
    line.slack = 0;
    return line;
}

// Returns the slack of the line. The relative errors of the posterior weight and of y are a few roundoffs times
// T = |u| / sigma + 1 / (2 sigma^2) (contour.md, section 5.1).
TIGHTDP_HD inline double moved_slack(double sigma, double farthest_u) noexcept {
    return 1e-9 + 40 * kUnitRoundoff * (farthest_u + 0.5 / sigma) / sigma;
}

// The parameters of the function y for an imaginary part S.
struct Move {
    double height, kappa;
};

// Chooses y for the imaginary part S. To second order, y = S r / (sigma stiffness) is best, up to the largest height
// that is allowed. This y is multiplied by `boost` >= 1.
TIGHTDP_HD inline Move choose_line_move(const MovedLine& line, double s, double boost) noexcept {
    const double best = boost * s / (line.sigma * line.stiffness);
    return best <= line.most ? Move{best, 1} : Move{line.most, best / line.most};
}

// Sums over the nodes. A node with weight a adds a (1 - J / J_0) to `lost`, and the magnitude of this term to `size`.
struct MovedSums {
    double lost = 0, size = 0;
};

// Returns a lower bound on -ln B(S). `sum` is the sum of the weights a, and `rounding` bounds the relative error of a
// term.
TIGHTDP_HD inline double moved_decay(const MovedLine& line, const MovedSums& sums, double sum,
                                     double rounding) noexcept {
    if (!(line.error < 0.1)) return 0;
    const double gap = (sums.lost - rounding * sums.size) / (sum * (1 + 2 * line.error + rounding)) - line.error;
    return gap > 0 ? -std::log1p(-min_value(gap, 1 - 1e-15)) * (1 - 1e-9) : 0;
}

}  // namespace tightdp::contour

namespace tightdp {

// Computes the sums for the imaginary part S = s (moved_line.simd.cpp). The bound on |phi| from these sums holds for
// all larger imaginary parts too. Terms are rounded so that 1 - B is not too large.
TIGHTDP_DECLARE_SIMD(void, sum_over_moved_line,
                     (const contour::MovedLine& line, double s, const contour::Move& move, const double* posterior,
                      const double* weights, std::int64_t n, contour::MovedSums& out))

}  // namespace tightdp
