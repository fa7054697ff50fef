// Tests identities that the certified bounds of tightdp/accounting/sampled_gaussians.hpp must satisfy.
#include <cmath>
#include <limits>
#include <stdexcept>

#include "check.hpp"
#include "runtime/work_budget.hpp"
#include "tightdp/accounting/gaussian.hpp"
#include "tightdp/accounting/sampled_gaussians.hpp"

using namespace tightdp;

namespace {

bool meet(Interval a, Interval b) { return a.lower <= b.upper && b.lower <= a.upper; }
bool narrow(Interval a) { return a.lower > 0 && a.upper - a.lower <= 1e-5 * a.upper; }

template <class Ask>
bool refused(Ask ask) {
    try {
        ask();
        return false;
    } catch (const std::invalid_argument&) {
        return true;
    }
}

}  // namespace

int main() {
    // Gaussian mechanisms without sampling add up. Three and six steps with sigma = 3 together equal one step with
    // sigma = 1.
    const SampledGaussians plain[] = {{3, 1, 3}, {3, 1, 6}};
    CHECK(meet(sampled_gaussians_epsilon(plain, 1e-5), gaussian_epsilon(1, 1e-5)));
    CHECK(meet(sampled_gaussians_delta(plain, 2), gaussian_bounds(1, 2).delta));

    // The result does not depend on the order of the entries, or on how steps are divided into entries.
    const SampledGaussians whole[] = {{1, 0.01, 1000}, {0.8, 0.02, 50}};
    const SampledGaussians cut[] = {{0.8, 0.02, 50}, {1, 0.01, 300}, {1, 0.01, 700}};
    const Interval epsilon = sampled_gaussians_epsilon(whole, 1e-5);
    CHECK(narrow(epsilon));
    CHECK(meet(epsilon, sampled_gaussians_epsilon(cut, 1e-5)));
    // epsilon and delta are inverse functions, and fewer steps have a smaller epsilon.
    CHECK(sampled_gaussians_delta(whole, epsilon.upper).lower <= 1e-5);
    CHECK(sampled_gaussians_delta(whole, epsilon.lower).upper >= 1e-5);
    CHECK(sampled_gaussians_epsilon({whole, 1}, 1e-5).upper < epsilon.lower);

    // The contour engine declines a single step, so the grid engine is tested. For eps > 0, "remove" is the worse
    // direction. Its delta is q times the delta of the mechanism without sampling, taken at ln(1 + (e^eps - 1)/q).
    const SampledGaussians once[] = {{1, 0.01, 1}};
    const double base = std::log1p(std::expm1(0.05) / 0.01);
    const Interval delta = sampled_gaussians_delta(once, 0.05), inner = gaussian_bounds(1, base).delta;
    CHECK(narrow(delta));
    CHECK(delta.lower <= 0.01 * inner.upper * (1 + 1e-12) && 0.01 * inner.lower * (1 - 1e-12) <= delta.upper);

    // A hard question ends soon after its budget of 10^9 units of work is spent.
    const SampledGaussians many[] = {{1e-6, 0.1, 1}, {1e-4, 0.3, 10}};
    for (const SampledGaussians& hard : many) {
        const std::int64_t before = work::spent();
        const Interval bound = sampled_gaussians_epsilon({&hard, 1}, 1e-5);
        CHECK(0 <= bound.lower && bound.lower <= bound.upper && work::spent() - before <= 1'500'000'000);
    }

    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK(refused([] { sampled_gaussians_epsilon({}, 1e-5); }));
    CHECK(refused([&] { sampled_gaussians_epsilon(whole, 0); }));
    CHECK(refused([&] { sampled_gaussians_delta(whole, nan); }));
    for (const SampledGaussians& bad :
         {SampledGaussians{0, 0.1, 1}, {nan, 0.1, 1}, {1, 0, 1}, {1, 1.5, 1}, {1, 0.1, 0.5}})
        CHECK(refused([&] { sampled_gaussians_epsilon({&bad, 1}, 1e-5); }));
    return check::failures;
}
