// Tests prv/*.hpp: privacy-loss distributions ("laws"), their cells, and the composition.
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "prv/curve.hpp"
#include "prv/epsilon_and_delta.hpp"

using namespace tightdp::prv;

namespace {

constexpr double kGigabyte = 1 << 30;

const std::vector<Law> kLaws = {GaussianLaw{0.7, 0},
                                LaplaceLaw{0.7},
                                PureLaw{0.4},
                                SampledLaw{0.8, 0.01, false},
                                SampledLaw{0.8, 0.01, true},
                                SampledLaw{0.1, 0.3, false},
                                SampledLaw{0.5, 1 - 1e-9, true},
                                SampledLaw{20, 1e-9, false}};

// Tests the cells of the support of a privacy loss Y. All mass but the tail must be in cells, no cell may be negative,
// and the mean of the cells must be E[Y] to within half a cell. At -y, the reversed law must have e^{-y} times
// the probability that the law has at y.
void law(const Law& law) {
    const Support s = prv_support(law, 1e-12);
    const double h = (s.high - s.low) / 501;
    const long long first = std::llround(s.low / h), last = std::llround(s.high / h);
    const std::int64_t count = static_cast<std::int64_t>(last - first + 1);
    std::vector<double> p(static_cast<std::size_t>(count)), r(p.size());
    prv_cells(law, h, first, count, p.data());
    prv_cells(reverse_prv_single_losses(law), h, -last, count, r.data());
    double total = 0, moment = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        CHECK(p[i] >= 0);
        total += p[i];
        moment += p[i] * static_cast<double>(first + i) * h;
        const double y = static_cast<double>(first + i) * h, mirrored = r[count - 1 - i];
        CHECK(mirrored <= p[i] * std::exp(-y + 0.51 * h) + 1e-15 && mirrored >= p[i] * std::exp(-y - 0.51 * h) - 1e-15);
    }
    CHECK(std::fabs(total - 1) <= s.tail + 1e-12);
    const Mean m = prv_mean(law);
    CHECK(std::fabs(moment - m.value) <= 0.5 * h + m.error + s.tail_moment + 1e-12 * s.high);
    CHECK(edge_error(law, s) < 1e-3 * h + 1e-13);
}

void composition() {
    const Request request{0.01, 1e-10, kGigabyte};
    const std::vector<Run> runs = {{SampledLaw{1.0, 0.01, false}, 1000}};
    const Bounds e = epsilon(runs, 1e-5, request);
    CHECK(e.lower <= 1.828236666516576 && 1.828236666516577 <= e.upper && e.upper - e.lower <= 0.022);
    const Bounds d = delta(runs, 1.828236666516577, request);
    CHECK(d.lower <= 1e-5 && 1e-5 <= d.upper && d.upper <= 1.1e-5);
    // Ten steps that are 10-DP are 100-DP together, and epsilon is not much smaller than 100.
    const Bounds pure = epsilon({{PureLaw{10}, 10}}, 1e-5, request);
    CHECK(99.98 <= pure.lower && pure.upper <= 100 * (1 + 1e-14));
    // A mechanism that fails with probability 1e-4 has no finite epsilon at 1e-5.
    CHECK(epsilon({{PureLaw{0.1}, 1, 1e-4}}, 1e-5, request).lower == HUGE_VAL);
    CHECK(epsilon({}, 1e-5, request).upper == 0);
}

// Tests the rounding bound where eps lies within a block of points. Half of the mass lies in the upper of two blocks.
// Each mass in the lower block is half a unit in the last place away from a double that can be added to 1/2 exactly.
// Adding these 511 masses one by one to 1/2 would err by about 250 * 2^-53. The points are so far apart that only the
// factor 1 - e^(eps - loss) of the next point above eps differs noticeably from 1.
void rounding_of_a_cut_block() {
    constexpr double unit = 0x1p-53, h = 50;
    const double c = (std::floor(0.5 / 511 / unit) + 0.49) * unit;
    std::vector<double> p(2 * Curve::kBlock);
    for (std::size_t i = 1; i < Curve::kBlock; ++i) p[i] = c;
    p[Curve::kBlock + 7] = 0.5;
    const Curve curve(p.data(), p.size(), 0, h, 0, -1);
    const auto exact = [&](double eps) {
        long double delta = 0;
        for (std::size_t i = 1; i < p.size(); ++i)
            if (i * h > eps) delta += p[i] * -std::expm1(static_cast<long double>(eps) - i * h);
        return delta;
    };
    CHECK(std::fabs(curve.delta(0) - exact(0)) <= curve.rounding_bound());
    CHECK(curve.delta(4 * Curve::kBlock * h) == 0);  // above all points
    const double target = 0.5 + 500.5 * c, eps = curve.epsilon(target);
    CHECK(std::fabs(exact(eps) - target) <= curve.rounding_bound() + 16 * unit * (eps + 1) * c);
}

// Tests the rounding errors of sums over a block. One mass is 1/2. Each other mass rounds down when it is added to 1/2,
// and its product with `decay` rounds up. Even on machines with short vectors, only few masses may be added to 1/2.
void rounding_of_a_whole_block() {
    constexpr double unit = 0x1p-53, h = 1e-3;
    std::vector<double> p(Curve::kBlock, 0.5), decay(Curve::kBlock, 1);
    long double mass = p[0], discounted = p[0];
    for (std::size_t j = 1; j < p.size(); ++j) {
        decay[j] = std::exp(-static_cast<double>(j) * h);
        double steps = std::floor(0.4 / 511 / unit) + 0.49;
        while (std::fabs(std::fmod(steps * decay[j], 1.0) - 0.52) > 0.01) ++steps;
        p[j] = steps * unit;
        mass += p[j];
        discounted += static_cast<long double>(p[j]) * decay[j];
    }
    double sum, weighted;
    tightdp::baseline::sum_curve_block(p.data(), decay.data(), Curve::kBlock, sum, weighted);
    CHECK(std::fabs(sum - mass) + std::fabs(weighted - discounted) <= 144 * unit);
}

void memory() {
    bool refused = false;
    try {
        epsilon({{SampledLaw{1.0, 0.01, false}, 1000000000}}, 1e-5, {0.01, 1e-10, kGigabyte});
    } catch (const TooLarge& error) {
        refused = error.bytes > kGigabyte;
    }
    CHECK(refused);
}

// Tests that a composition is refused if a composer, such as a device, has lost some mass.
void missing_mass() {
    const Composer lossy = [](const std::vector<Run>& runs, const Circle& circle) {
        Composite made = compose_on_cpu(runs, circle);
        made.sums.back().total -= 1e-9;
        return made;
    };
    bool refused = false;
    try {
        epsilon({{SampledLaw{1.0, 0.01, false}, 1000}}, 1e-5, {0.01, 1e-12, kGigabyte}, lossy);
    } catch (const std::logic_error&) {
        refused = true;
    }
    CHECK(refused);
}

}  // namespace

int main() {
    for (const Law& each : kLaws) law(each);
    composition();
    rounding_of_a_cut_block();
    rounding_of_a_whole_block();
    memory();
    missing_mass();
    return check::failures;
}
