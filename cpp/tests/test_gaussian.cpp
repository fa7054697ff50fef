// Tests that the bounds of tightdp/accounting/gaussian.hpp contain values that were computed with 40 digits, and that
// bounds on epsilon and delta agree.
#include <initializer_list>

#include "check.hpp"
#include "tightdp/accounting/gaussian.hpp"

using namespace tightdp;

namespace {

void check_delta(double mu, double eps, double exact) {
    const Interval d = gaussian_bounds(mu, eps).delta;
    CHECK(d.lower <= exact * (1 + 2e-16) && exact * (1 - 2e-16) <= d.upper);
    CHECK(d.upper - d.lower <= 3e-14 * exact);
}

void check_epsilon(double mu, double delta) {
    const Interval e = gaussian_epsilon(mu, delta);
    CHECK(0 <= e.lower && e.lower <= e.upper && e.upper < HUGE_VAL);
    CHECK(gaussian_bounds(mu, e.upper).delta.upper <= delta);
    CHECK(e.lower == 0 || gaussian_bounds(mu, e.lower).delta.lower >= delta);
    CHECK(e.upper - e.lower <= 1e-12 * e.upper + 1e-13 * mu);
}

}  // namespace

int main() {
    check_delta(1.0, 1.0, 0.1269367375066439458);
    check_delta(1.0, -1.0, 0.67881797488662791595);
    check_delta(0.001, 0.003, 3.8272793724738971019e-7);
    check_delta(1e-09, 1e-09, 8.331547062934403887e-11);
    check_delta(10.0, 91.75, 0.000010304787291303521403);
    check_delta(1000.0, 530000.0, 4.7636416217278319916e-198);
    check_delta(1.0, 36.0, 6.7231899231030299191e-278);
    for (double mu : {1e-9, 1e-3, 0.7, 1.0, 40.0, 1e9})
        for (double delta : {1e-300, 1e-30, 1e-5, 0.01, 0.3}) check_epsilon(mu, delta);
    return check::failures;
}
