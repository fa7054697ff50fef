#include "remainders.hpp"

#include <cmath>

#include "contour/inversion/trapezoid_sum.hpp"

namespace tightdp::contour {
namespace {

// Largest |x| for which the remainders are computed from the Taylor series of ln(1 + x) and e^x, and the numbers of
// terms of these series. The sum of the other terms is below the unit roundoff times the remainder.
constexpr double kSmall = 0.25;
constexpr int kLogTerms = 28, kExpTerms = 14;

Complex multiply_remainder_terms(Complex x, Complex y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

// Returns x^2 times a polynomial in x. `coefficients` begins with the constant term.
template <std::size_t n>
Complex evaluate_remainder_series(Complex x, const double (&coefficients)[n]) {
    Complex sum{coefficients[n - 1], 0};
    for (std::size_t i = n - 1; i-- > 0;) {
        sum = multiply_remainder_terms(sum, x);
        sum.re += coefficients[i];
    }
    return multiply_remainder_terms(multiply_remainder_terms(x, x), sum);
}

struct Coefficients {
    double log[kLogTerms], exp[kExpTerms];
    constexpr Coefficients() : log(), exp() {
        double factorial = 1;
        for (int i = 0; i < kLogTerms; ++i) log[i] = (i % 2 == 0 ? -1.0 : 1.0) / (i + 2);
        for (int i = 0; i < kExpTerms; ++i) exp[i] = 1 / (factorial *= i + 2);
    }
};
constexpr Coefficients kSeries;

}  // namespace

Remainder ray_log_remainder(Complex x) {
    const double size = std::hypot(x.re, x.im);
    if (size <= kSmall) return {evaluate_remainder_series(x, kSeries.log), 40 * kUnitRoundoff * size * size};
    const LogFactor log(x.re, x.im);
    return {{log.re - x.re, log.im - x.im}, 20 * kUnitRoundoff * (std::hypot(log.re, log.im) + size)};
}

Remainder ray_exp_remainder(Complex x) {
    const double size = std::hypot(x.re, x.im);
    if (size <= kSmall) return {evaluate_remainder_series(x, kSeries.exp), 40 * kUnitRoundoff * size * size};
    const Complex e = path_expm1(x.re, x.im);
    return {{e.re - x.re, e.im - x.im}, kUnitRoundoff * (90 * (1 + std::exp(x.re)) + 4 * size)};
}

}  // namespace tightdp::contour
