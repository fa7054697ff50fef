// The finite trapezoid sum over the abscissae z = c + i m step, which approximates delta(epsilon), and the bounds on
// its errors (docs/theory/contour.md, sections 1 to 5 and 7). M is the moment generating function of the privacy loss.
#pragma once

#include <cstdint>

#include "plan.hpp"

namespace tightdp::contour {

// The logarithm ln(1 + xi) of a complex number with xi = x + iy, and 1/|1 + xi|. Errors are small relative to |xi| if
// xi is near 0, and small relative to |1 + xi| if 1 + xi is near 0.
struct LogFactor {
    double re, im, inverse;
    TIGHTDP_HD LogFactor(double x, double y) noexcept
        : re(x > -0.5 ? 0.5 * std::log1p(x * (2 + x) + y * y) : std::log(max_value(std::hypot(1 + x, y), 1e-300))),
          im(std::atan2(y, 1 + x)),
          inverse(1 / std::exp(re)) {}
};

// ln(M(z)/M(c)) at one abscissa, and bounds on its errors: `rule` from the trapezoid rule that computes M, and `round`
// from rounding. If the error of ln a is at most x, the relative error of a is at most e^x - 1.
struct LogRatio {
    double re = 0, im = 0, rule = 0, round = 0;

    // Adds the logarithm of the `count`-th power of 1 + x + iy. The errors of x + iy are `rule_error` from the rule and
    // `given` from rounding.
    TIGHTDP_HD void add_trapezoid_log_power(double x, double y, double rule_error, double given,
                                            double count) noexcept {
        const LogFactor one(x, y);
        re += count * one.re;
        im += count * one.im;
        rule += count * std::log1p(rule_error * one.inverse);
        round +=
            count * std::log1p(given * one.inverse) +
            kUnitRoundoff * (6 * count * (std::fabs(one.re) + std::fabs(one.im)) + 2 * (std::fabs(re) + std::fabs(im)));
    }

    // Adds `count` times another logarithm. `count` may be any real number, and its error is at most `count_error`.
    TIGHTDP_HD void add_trapezoid_log_multiple(const LogRatio& one, double count, double count_error) noexcept {
        const double size = std::fabs(count);
        re += count * one.re;
        im += count * one.im;
        rule += size * one.rule;
        round += size * one.round + (count_error + kUnitRoundoff * size) * (std::fabs(one.re) + std::fabs(one.im)) +
                 2 * kUnitRoundoff * (std::fabs(re) + std::fabs(im));
    }
};

// The ordinates h_m = (M(z)/M(c)) / (z (z + 1)), m = 0..count, of which h_0 is halved, and bounds on their errors from
// the rule and from rounding.
struct Ordinates {
    double *re, *im, *rule, *round;

    // Sets the ordinate m. l is ln(M(z)/M(c)) of all mechanisms except the Gaussians without sampling, whose logarithm
    // is added here. mu2 is the sum of count / sigma^2 over these Gaussians.
    TIGHTDP_HD void set_trapezoid_ordinate(std::int64_t m, LogRatio l, double c, double step,
                                           double mu2) const noexcept {
        const double s = step * static_cast<double>(m);
        const double gauss_re = -0.5 * mu2 * s * s, gauss_im = mu2 * s * (c + 0.5);
        l.re += gauss_re;
        l.im += gauss_im;
        l.round +=
            12 * kUnitRoundoff * (std::fabs(gauss_re) + std::fabs(gauss_im) + std::fabs(l.re) + std::fabs(l.im) + 1);
        // The code divides by z (z + 1) = p + i r.
        const double p = c * (c + 1) - s * s, r = s * (2 * c + 1), norm = p * p + r * r;
        const double size = std::exp(l.re), co = std::cos(l.im), si = std::sin(l.im);
        const double a = size * (co * p + si * r) / norm, b = size * (si * p - co * r) / norm;
        re[m] = m == 0 ? 0.5 * a : a;
        im[m] = m == 0 ? 0.0 : b;
        // M(z)/M(c) is a product of powers a_j^k, where a_j is the ratio for one step with the distribution j, and k is
        // the number of these steps. Errors e_j of the factors a_j change the product by at most
        //     prod (|a_j| + |e_j|)^k - prod |a_j|^k.
        // If exp(l) is the modulus of the product and x the error of its logarithm, this bound is exp(l + x) - exp(l).
        // Let x = y + off, where y comes from the rule and off from rounding. The term exp(l) (exp(y) - 1)
        // (exp(off) - 1), which contains both, counts as an error of the rule.
        const double off = l.round + 16 * kUnitRoundoff, weight = (m == 0 ? 0.5 : 1.0) / std::sqrt(norm);
        rule[m] = std::exp(l.re + l.rule + off) * -std::expm1(-l.rule) * weight;
        round[m] = std::exp(l.re + off) * -std::expm1(-off) * weight;
    }
};

// The value of the sum at one epsilon, which approximates delta(epsilon).
struct CurveValue {
    double delta, slope;                                // the sum and its derivative
    double aliasing, truncation, quadrature, rounding;  // bounds on the errors (aliasing only increases the sum)
    TIGHTDP_HD double trapezoid_delta_error() const noexcept { return aliasing + truncation + quadrature + rounding; }
    TIGHTDP_HD double lower_trapezoid_delta() const noexcept { return delta - trapezoid_delta_error(); }
    TIGHTDP_HD double upper_trapezoid_delta() const noexcept { return delta + truncation + quadrature + rounding; }
};

// Computes the sum at epsilon by the lanes of a team (runtime/team.hpp). Besides the error of its ordinate, a term has
// a rounding error of at most 3u (`trigonometry` + |angle|) times the ordinate, where u is kUnitRoundoff.
// `trigonometry` covers a sine, a cosine, their products and the sum of these products. It is 2 on the host
// (contour.md, section 5.3) and 6 on a device (section 7).
template <class Team>
TIGHTDP_HD_STAGE CurveValue evaluate_trapezoid_sum(const Team& team, const Ordinates& h, const Plan& plan,
                                                   double trigonometry, double epsilon) {
    double sum = 0, slope = 0, rule = 0, round = 0, size = 0;
    for (std::int64_t m = team.lane(); m <= plan.count; m += team.size()) {
        const double s = plan.step * static_cast<double>(m), angle = s * epsilon;
        const double co = std::cos(angle), si = std::sin(angle), re = h.re[m], im = h.im[m];
        const double real = re * co + im * si, imaginary = im * co - re * si;
        sum += real;
        slope += plan.c * real - s * imaginary;
        const double modulus = std::fabs(re) + std::fabs(im);
        size += modulus;
        rule += h.rule[m];
        round += h.round[m] + modulus * 3 * kUnitRoundoff * (trigonometry + std::fabs(angle));
    }
    sum = team.sum(sum);
    slope = team.sum(slope);
    rule = team.sum(rule);
    round = team.sum(round) + team.sum(size) * kUnitRoundoff * static_cast<double>(plan.count + 4);
    const double front = plan.step / kPi * std::exp(plan.k.value - plan.c * epsilon);
    CurveValue v;
    v.delta = front * sum;
    v.slope = -front * slope;
    const double front_rounding = kUnitRoundoff * (std::fabs(plan.k.value) + 3 * std::fabs(plan.c * epsilon) + 16);
    v.truncation = std::exp(plan.k.upper() - plan.c * epsilon + plan.log_decay) /
                   (kPi * plan.step * static_cast<double>(plan.count)) * (1 + 1e-9);
    // If ln M(c) has an error x, the sum and the bounds on its errors are multiplied by at most e^x.
    const double inflate = std::exp(plan.k.rule + plan.k.rounding + front_rounding);
    v.quadrature = (front * rule + std::fabs(v.delta) * std::expm1(plan.k.rule)) * inflate;
    v.rounding = (front * round + std::fabs(v.delta) * std::expm1(plan.k.rounding + front_rounding)) * inflate;
    const double period = 2 * kPi / plan.step;
    v.aliasing = alias_excess(plan.left.k + log_aliasing_kappa(plan.left.c) - plan.left.c * epsilon,
                              plan.c - plan.left.c, period) +
                 alias_excess(plan.right.k + log_aliasing_kappa(plan.right.c) - plan.right.c * epsilon,
                              plan.right.c - plan.c, period);
    return v;
}

}  // namespace tightdp::contour
