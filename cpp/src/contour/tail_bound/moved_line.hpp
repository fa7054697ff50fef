// Decay of |M(c + is) / M(c)|, by moving the line of integration of the Gaussian variable into the strip where the
// loss turns. docs/theory/contour.md, section 3.6.
//
// Let y(u) = height * p(u), p = kappa r / (1 - r + kappa r) a logistic function of u. Then
//     |phi(s)| <= B(S) = int |F(u + i y(u))| |1 + i y'(u)| du / M(c)   for all s >= S,
// F the integrand at c + iS: its modulus falls in s. J stands for the integrand of B, J_0 for F(u).
#pragma once

#include <cmath>
#include <cstdint>

#include "contour/compare.hpp"
#include "contour/mgf/quadrature.hpp"
#include "runtime/dispatch.hpp"

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
TIGHTDP_HD inline double log_moved_norm(const Pair& p, double c, const MovedLine& line) noexcept {
    const double most = line.most;
    return 0.613 + strip_penalty(p, c, 1.5 * most) + 0.585 * most * most * line.stiffness;
}

// Chooses the line for abscissae S >= first_s. log_inverse: -ln of the error aimed at. "remove" and "add" only.
TIGHTDP_HD inline MovedLine moved_line(const Pair& p, double c, double first_s, double log_inverse) noexcept {
    MovedLine line;
    const double sigma = p.sigma;
    line.sigma = sigma;
    line.beta = p.beta(c);
    // The posterior weight at the mode.
    const double r = posterior_weight(p, range_left(p, c));
    line.stiffness = 1 + (1 + larger(0.0, -line.beta) * r * (1 - r)) / (sigma * sigma);
    const double farthest = posterior_weight(p, range_right(p, c, 4));
    line.most = smaller(kMovedPart * kPi * sigma, larger(1.0, 3 * farthest * first_s / sigma));
    const double log_norm = log_moved_norm(p, c, line) + std::log(2.0);
    const double gain = larger(log_norm + log_inverse, 5.0);
    line.h = kPi * line.most / gain;
    const double lift = strip_penalty(p, c, line.most) + 0.04;
    line.growth = std::exp(lift);
    line.margin = range_margin(p, c, log_inverse + lift);
    line.error = std::exp(log_norm - gain) / -std::expm1(-gain) + quadrature_error(p, c, 0, line.h) +
                 range_error(p, c, line.margin) * (2 + line.growth);
    line.slack = 0;
    return line;
}

// The posterior weight errs by a few u T, T = |u| / sigma + 1 / (2 sigma^2) (section 5.1), and the move with
// it.
TIGHTDP_HD inline double moved_slack(double sigma, double farthest_u) noexcept {
    return 1e-9 + 40 * kUnitRoundoff * (farthest_u + 0.5 / sigma) / sigma;
}

// The parameters of the function y for an abscissa S.
struct Move {
    double height, kappa;
};

// Chooses y. To second order y = S r / (sigma stiffness) is best, up to the largest height allowed; boost >= 1
// multiplies it.
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

namespace tightdp {

// Sums for a line moved for abscissae from s on (moved_line.simd.cpp), rounded so that 1 - B is not too large.
TIGHTDP_DECLARE_SIMD(void, contour_moved,
                     (const contour::MovedLine& line, double s, const contour::Move& move, const double* posterior,
                      const double* weights, std::int64_t n, contour::MovedSums& out))

}  // namespace tightdp
