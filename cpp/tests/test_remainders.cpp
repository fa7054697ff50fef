// Tests contour/rays/remainders.hpp against ln(1 + x) - x and e^x - 1 - x in long double. For small x, the terms of
// these differences cancel, and the test sums a series instead.
#include <cmath>
#include <complex>

#include "check.hpp"
#include "contour/mgf/quadrature.hpp"
#include "contour/rays/remainders.hpp"

using tightdp::contour::ray_exp_remainder;
using tightdp::contour::ray_log_remainder;
using tightdp::contour::Remainder;
using Long = std::complex<long double>;

namespace {

Long exact_log(Long x) {
    if (std::abs(x) > 0.5L) return std::log(1.0L + x) - x;
    Long sum = 0, power = -x;
    for (int n = 2; n < 200; ++n) {
        power *= -x;
        sum -= power / static_cast<long double>(n);
    }
    return sum;
}

Long exact_exp(Long x) {
    if (std::abs(x) > 2.0L) return std::exp(x) - 1.0L - x;
    Long sum = 0, term = x;
    for (int n = 2; n < 60; ++n) {
        term *= x / static_cast<long double>(n);
        sum += term;
    }
    return sum;
}

bool within(const Remainder& found, Long exact) {
    return std::abs(Long(found.value.re, found.value.im) - exact) <= found.error;
}

}  // namespace

int main() {
    for (int i = -60; i <= 12; ++i) {
        const double size = std::exp(0.25 * i);
        for (int k = 0; k < 96; ++k) {
            const double angle = tightdp::contour::kPi * (k + 0.3) / 48, re = size * std::cos(angle),
                         im = size * std::sin(angle);
            const Long x(re, im);
            CHECK(within(ray_log_remainder({re, im}), exact_log(x)));
            CHECK(within(ray_exp_remainder({re, im}), exact_exp(x)));
            // The error bounds are of second order in the argument.
            if (size < 0.2) {
                CHECK(ray_log_remainder({re, im}).error < 1e-14 * size * size);
                CHECK(ray_exp_remainder({re, im}).error < 1e-14 * size * size);
            }
        }
    }
    return check::failures;
}
