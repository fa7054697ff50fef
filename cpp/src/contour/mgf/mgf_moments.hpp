// The moment generating function M(z) = E[e^{zY}] of the privacy loss Y of a Gaussian mechanism on a Poisson sample.
// The functions of this file choose the nodes of a trapezoid rule (quadrature.hpp), and compute ln M with error bounds
// from sums over the nodes. The loops that add up the sums are in sampled_mgf.cpp for the host, and in batch_mgf.hpp
// for a device (docs/theory/contour.md, sections 4 and 5).
#pragma once

#include <cmath>
#include <cstdint>

#include "contour/min_max_clamp.hpp"
#include "quadrature.hpp"

namespace tightdp::contour {

// Sums over the nodes u_i, values of a standard normal variable. The node u_i has the loss L_i and the weight
//     a_i = h phi(u_i) e^{beta L_i - shift}.
// Here h is the distance between nodes, and phi is the standard normal density. The exponent beta is 1 + c for "remove"
// and -c for "add", where c is the argument of M. A positive `shift` keeps weights from overflowing.
struct Moments {
    double sum = 0;        // sum a
    double minus_one = 0;  // sum (a - h phi), which is used only if shift = 0
    double first = 0;      // sum a L
    double second = 0;     // sum a L^2
    // Sums for the bound on rounding errors, where errors are in units of 2^-53.
    double abs_first = 0;      // sum a |L|
    double alpha = 0;          // sum a alpha_i, where alpha_i is the relative error of a_i
    double alpha_first = 0;    // sum a alpha_i |L|
    double eta = 0;            // sum a eta_i, where eta_i is the error of L_i
    double minus_one_err = 0;  // the error of minus_one
};

// The cumulant ln M and its first two derivatives.
struct Cumulants {
    double k0 = 0, k1 = 0, k2 = 0;
};

// A computed value of ln M at a real argument, with bounds on the errors of the value.
struct CertifiedLogMgf {
    double value = 0;
    double rule = 0;  // error of the trapezoid rule over u
    double rounding = 0;
    TIGHTDP_HD double upper() const noexcept { return value + rule + rounding; }
};

// If an upper bound on ln M is at most this number, no term of the sum overflows, and M - 1 is summed directly.
inline constexpr double kDirect = 600;
// Returns an upper bound on ln M(c): c ln(1/(1-q)) for "add", c (c + 1) / (2 sigma^2) for "remove", and 2 c
// (c + 1) / sigma^2 for "replace".
TIGHTDP_HD inline double bound_log_mgf_without_nodes(const Pair& p, double c) noexcept {
    if (p.is_contour_add()) return -c * std::log1p(-p.q);
    return (p.is_contour_replace() ? 2 : 0.5) * c * (c + 1) / (p.sigma * p.sigma);
}

// The step h of the nodes, the margin of their range, and the first and the last node as multiples of h.
struct NodeRange {
    double h, margin, left, right;
};

// Chooses the nodes for all arguments c + i s of M with c <= c_most and |s| <= s_most. The trapezoid rule and the
// finite range each have a relative error of at most e^{-log_inverse}.
TIGHTDP_HD inline NodeRange choose_mgf_node_range(const Pair& p, double c_most, double s_most,
                                                  double log_inverse) noexcept {
    NodeRange e;
    e.h = node_step(p, c_most, s_most, log_inverse);
    e.margin = quadrature_margin(p, c_most, log_inverse);
    // An extra node is placed on either side, because the tail of the sum is compared with an integral that starts one
    // step earlier.
    e.left = std::floor((quadrature_left_end(p, c_most) - e.margin) / e.h) - 1;
    e.right = std::ceil(quadrature_right_end(p, c_most, e.margin) / e.h) + 1;
    return e;
}

// Estimates count * ln M and its derivatives.
TIGHTDP_HD inline Cumulants mgf_cumulants(const Moments& m, double shift, double count, bool add) noexcept {
    const double sign = add ? -1 : 1, mean = m.first / m.sum;
    const double k0 = shift > 0 ? shift + std::log(m.sum) : std::log1p(m.minus_one);
    return {count * k0, count * sign * mean, count * max_value(0.0, m.second / m.sum - mean * mean)};
}

// Returns a bound on the relative error of the trapezoid rule at the real argument c.
TIGHTDP_HD inline double real_mgf_rule_error(const Pair& p, double c, double h, double margin) noexcept {
    return quadrature_error(p, c, 0, h) + quadrature_range_error(p, c, margin) +
           2.1 * std::exp(-2 * (kPi / h) * (kPi / h));
}

// Returns count * ln M with error bounds, from sums over `nodes` nodes.
TIGHTDP_HD inline CertifiedLogMgf log_mgf_from_moments(const Moments& m, double shift, double rule, std::int64_t nodes,
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
    // |ln(1 + x)| <= 1.01 |x| for |x| < 0.01. For larger errors the bounds are infinite.
    if (!(rule + rounding < 0.01)) return {count * value, HUGE_VAL, HUGE_VAL};
    return {count * value, count * 1.02 * rule, count * 1.02 * rounding};
}

// Returns a bound on the error of the trapezoid rule, relative to M(c). The bound holds at all arguments c + i s with
// |s| <= s_most.
TIGHTDP_HD inline double complex_mgf_rule_error(const Pair& p, double c, double s_most, double h,
                                                double margin) noexcept {
    return 2.2 * (quadrature_error(p, c, s_most, h) + quadrature_range_error(p, c, margin));
}

}  // namespace tightdp::contour
