// How fast |M(c + is) / M(c)| decays, by moving the line of integration of the Gaussian variable into the
// strip where the loss turns. docs/theory/contour.md, section 3.6.
//
// With y(u) = height * p(u), p = kappa r / (1 - r + kappa r) a logistic function of u,
//     |phi(s)| <= B(S) = int |F(u + i y(u))| |1 + i y'(u)| du / M(c)   for all s >= S,
// F the integrand at c + iS: its modulus falls in s. J stands for the integrand of B, J_0 for F(u).
#pragma once

#include <cmath>

#include "contour/compare.hpp"
#include "contour/mgf/quadrature.hpp"

namespace tightdp::contour {

struct MovedLine {
    double sigma, beta;  // of the weight W^beta
    double most;         // of the height
    double stiffness;    // to second order ln (J / J_0) <= stiffness y^2 / 2 - S r y / sigma
    double h, margin;    // step of the rule, and how far its nodes reach
    double growth;       // J / J_0 at most
    double error;        // of 1 - B, relative to M(c)
    double slack;        // of ln (J / J_0), relative to its terms: rounding
};

// The line is moved by at most this part of the strip's half-width pi sigma; the constants below are for it.
inline constexpr double kMovedPart = 0.333;

// ln of N / M(c), N the L1 norm of the integrand of B continued by most / 2 to either side of the real line.
TIGHTDP_HD inline double log_moved_norm(double sigma, double q, double c, Pair pair, const MovedLine& line) noexcept {
    const double most = line.most;
    return 0.613 + strip_penalty(sigma, q, c, pair, 1.5 * most) + 0.585 * most * most * line.stiffness;
}

// For abscissae S >= first_s. log_inverse: -ln of the error aimed at. "remove" and "add" only.
TIGHTDP_HD inline MovedLine moved_line(double sigma, double q, double c, Pair pair, double first_s,
                                       double log_inverse) noexcept {
    MovedLine line;
    line.sigma = sigma;
    line.beta = pair.kind == Pair::add ? -c : 1 + c;
    // At the mode.
    const double r = posterior_weight(sigma, q, range_left(sigma, q, c, pair));
    line.stiffness = 1 + (1 + larger(0.0, -line.beta) * r * (1 - r)) / (sigma * sigma);
    const double farthest = posterior_weight(sigma, q, range_right(sigma, q, c, pair, 4));
    line.most = smaller(kMovedPart * kPi * sigma, larger(1.0, 3 * farthest * first_s / sigma));
    const double log_norm = log_moved_norm(sigma, q, c, pair, line) + std::log(2.0);
    const double gain = larger(log_norm + log_inverse, 5.0);
    line.h = kPi * line.most / gain;
    const double lift = strip_penalty(sigma, q, c, pair, line.most) + 0.04;
    line.growth = std::exp(lift);
    line.margin = range_margin(sigma, c, pair, log_inverse + lift);
    line.error = std::exp(log_norm - gain) / -std::expm1(-gain) + quadrature_error(sigma, q, c, pair, 0, line.h) +
                 range_error(sigma, c, pair, line.margin) * (2 + line.growth);
    line.slack = 0;
    return line;
}

// The posterior weight errs by a few u T, T = |u| / sigma + 1 / (2 sigma^2) (section 5.1), and the move with
// it.
TIGHTDP_HD inline double moved_slack(double sigma, double farthest_u) noexcept {
    return 1e-9 + 40 * kUnitRoundoff * (farthest_u + 0.5 / sigma) / sigma;
}

// Which function y is, for S.
struct Move {
    double height, kappa;
};

// To second order y = S r / (sigma stiffness) is best, up to where it cannot be higher; boost >= 1 times that may be.
TIGHTDP_HD inline Move move_for(const MovedLine& line, double s, double boost) noexcept {
    const double best = boost * s / (line.sigma * line.stiffness);
    return best <= line.most ? Move{best, 1} : Move{line.most, best / line.most};
}

// The sums over the nodes of a (1 - J / J_0), and of its absolute values.
struct MovedSums {
    double lost = 0, size = 0;
};

// -ln B(S), rounded down. sum: of the weights a; rounding: the relative error of a term at most.
TIGHTDP_HD inline double moved_decay(const MovedLine& line, const MovedSums& sums, double sum,
                                     double rounding) noexcept {
    if (!(line.error < 0.1)) return 0;
    const double gap = (sums.lost - rounding * sums.size) / (sum * (1 + 2 * line.error + rounding)) - line.error;
    return gap > 0 ? -std::log1p(-smaller(gap, 1 - 1e-15)) * (1 - 1e-9) : 0;
}

}  // namespace tightdp::contour
