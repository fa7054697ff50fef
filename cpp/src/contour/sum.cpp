#include "sum.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/work.hpp"
#include "aliasing.hpp"
#include "quadrature.hpp"

namespace tightdp::contour {
namespace {

// Of work: an abscissa's sine, cosine and their like.
constexpr std::int64_t kAbscissaUnits = 20;

}  // namespace

TrapezoidSum::TrapezoidSum(Cumulant& cumulant, const Plan& plan) : plan_(plan) {
    const std::size_t n = plan_.count;
    re_.assign(n + 1, 0);
    im_.assign(n + 1, 0);
    rule_.assign(n + 1, 0);
    round_.assign(n + 1, 0);
    // First the logarithm of M(z)/M(c), summed over the parts.
    std::vector<double> xi_re(n), xi_im(n), rounding(n);
    for (Part& part : cumulant.parts()) {
        work::spend(3 * kAbscissaUnits * plan.count);
        const double rule = part.products(plan_.c, plan_.step, plan_.count, xi_re.data(), xi_im.data(), rounding.data());
        const double k = part.count();
        for (std::size_t m = 1; m <= n; ++m) {
            const double x = xi_re[m - 1], y = xi_im[m - 1];
            // Relative to |xi| where that is small, relative to |1 + xi| where that is.
            const double log_modulus = x > -0.5 ? 0.5 * std::log1p(x * (2 + x) + y * y)
                                                : std::log(std::max(std::hypot(1 + x, y), 1e-300));
            const double angle = std::atan2(y, 1 + x);
            re_[m] += k * log_modulus;
            im_[m] += k * angle;
            const double inverse = 1 / std::exp(log_modulus);
            rule_[m] += k * std::log1p(rule * inverse);
            round_[m] += k * std::log1p(rounding[m - 1] * inverse) +
                         kUnitRoundoff * (6 * k * (std::abs(log_modulus) + std::abs(angle)) +
                                  2 * (std::abs(re_[m]) + std::abs(im_[m])));
        }
    }
    for (std::size_t m = 0; m <= n; ++m) {
        const double s = plan_.step * m;
        const double gauss_re = -0.5 * cumulant.mu2() * s * s, gauss_im = cumulant.mu2() * s * (plan_.c + 0.5);
        re_[m] += gauss_re;
        im_[m] += gauss_im;
        round_[m] += 12 * kUnitRoundoff * (std::abs(gauss_re) + std::abs(gauss_im) + std::abs(re_[m]) + std::abs(im_[m]) + 1);
        // Divided by z (z + 1).
        const double p = plan_.c * (plan_.c + 1) - s * s, r = s * (2 * plan_.c + 1), norm = p * p + r * r;
        const double log_size = re_[m], size = std::exp(log_size), co = std::cos(im_[m]), si = std::sin(im_[m]);
        const double a = size * (co * p + si * r) / norm, b = size * (si * p - co * r) / norm;
        re_[m] = m == 0 ? 0.5 * a : a;
        im_[m] = m == 0 ? 0.0 : b;
        // |prod (a_j + e_j)^k - prod a_j^k| <= prod (|a_j| + |e_j|)^k - prod |a_j|^k, here e^{l + x} - e^l. The cross term
        // of the two kinds of error is charged to the rule.
        const double rule = rule_[m], round = round_[m] + 16 * kUnitRoundoff, weight = (m == 0 ? 0.5 : 1.0) / std::sqrt(norm);
        rule_[m] = std::exp(log_size + rule + round) * -std::expm1(-rule) * weight;
        round_[m] = std::exp(log_size + round) * -std::expm1(-round) * weight;
    }
}

TrapezoidSum::Value TrapezoidSum::at(double epsilon) const {
    double sum = 0, slope = 0, rule = 0, round = 0, size = 0;
    const std::size_t n = plan_.count;
    work::spend(kAbscissaUnits * plan_.count);
    for (std::size_t m = 0; m <= n; ++m) {
        const double s = plan_.step * m, angle = s * epsilon;
        const double co = std::cos(angle), si = std::sin(angle);
        const double real = re_[m] * co + im_[m] * si;
        const double imaginary = im_[m] * co - re_[m] * si;
        sum += real;
        slope += plan_.c * real - s * imaginary;
        const double modulus = std::abs(re_[m]) + std::abs(im_[m]);
        size += modulus;
        rule += rule_[m];
        round += round_[m] + modulus * 3 * kUnitRoundoff * (2 + std::abs(angle));
    }
    round += size * kUnitRoundoff * static_cast<double>(n + 4);
    const double front = plan_.step / kPi * std::exp(plan_.k.value - plan_.c * epsilon);
    Value v{};
    v.delta = front * sum;
    v.slope = -front * slope;
    const double front_rounding = kUnitRoundoff * (std::abs(plan_.k.value) + 3 * std::abs(plan_.c * epsilon) + 16);
    v.truncation = std::exp(plan_.k.upper() - plan_.c * epsilon + plan_.log_decay) / (kPi * plan_.step * plan_.count) * (1 + 1e-9);
    // An error x of ln M(c) multiplies the sum and what is certified of it by at most e^x.
    const double inflate = std::exp(plan_.k.rule + plan_.k.rounding + front_rounding);
    v.quadrature = (front * rule + std::abs(v.delta) * std::expm1(plan_.k.rule)) * inflate;
    v.rounding = (front * round + std::abs(v.delta) * std::expm1(plan_.k.rounding + front_rounding)) * inflate;
    const double period = 2 * kPi / plan_.step;
    v.aliasing =
        alias_excess(plan_.left.k.upper() + log_kappa(plan_.left.c) - plan_.left.c * epsilon, plan_.c - plan_.left.c, period) +
        alias_excess(plan_.right.k.upper() + log_kappa(plan_.right.c) - plan_.right.c * epsilon, plan_.right.c - plan_.c, period);
    return v;
}

}  // namespace tightdp::contour
