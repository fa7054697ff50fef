#include "tightdp/accounting/sampled_gaussians.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "contour/engine.hpp"
#include "grid/engine.hpp"
#include "runtime/arithmetic.hpp"
#include "runtime/compensated_sum.hpp"
#include "runtime/work.hpp"
#include "tightdp/accounting/gaussian.hpp"

namespace tightdp {
namespace {

// As in Python: relative errors aimed at, and points of the largest grid (accounting/engines/contour.py, grid.py).
constexpr double kTolerance = 1e-11, kWidth = 1e-6;
constexpr std::size_t kMostPoints = std::size_t{1} << 20;

// Work for a question, about two seconds with what is done last: a caller in C cannot interrupt it.
constexpr std::int64_t kUnits = 1'000'000'000;

// Found when the library is loaded.
const std::string fault_of_library = library_fault();

void check(std::span<const SampledGaussians> run) {
    if (const char* fault = arithmetic_fault()) throw std::runtime_error(fault);
    if (!fault_of_library.empty()) throw std::runtime_error(fault_of_library);
    if (run.empty()) throw std::invalid_argument("run: expected at least one entry");
    for (const SampledGaussians& part : run) {
        if (!(part.noise_multiplier >= 1e-6 && part.noise_multiplier <= 1e12))
            throw std::invalid_argument("noise_multiplier: expected a number in [1e-6, 1e12]");
        if (!(part.sampling_probability > 0 && part.sampling_probability <= 1))
            throw std::invalid_argument("sampling_probability: expected a number in (0, 1]");
        if (!(part.steps >= 1 && part.steps < 0x1p53 && part.steps == std::floor(part.steps)))
            throw std::invalid_argument("steps: expected an integer in [1, 2^53)");
    }
}

// Entries that differ in nothing but their steps are one, unless it had 2^53 steps.
std::vector<SampledGaussians> merged(std::span<const SampledGaussians> run) {
    const auto noise_and_sample = [](const SampledGaussians& part) {
        return std::pair(part.noise_multiplier, part.sampling_probability);
    };
    std::vector<SampledGaussians> parts(run.begin(), run.end()), found;
    std::ranges::sort(parts, {}, noise_and_sample);
    for (const SampledGaussians& part : parts)
        if (!found.empty() && noise_and_sample(found.back()) == noise_and_sample(part) &&
            found.back().steps + part.steps < 0x1p53)
            found.back().steps += part.steps;
        else
            found.push_back(part);
    return found;
}

// Plain Gaussians add up to one, whose mu^2 is within 4u (contour.md 5.3).
struct Parts {
    std::vector<contour::Sampled> sampled;
    CompensatedSum mu2;

    explicit Parts(std::span<const SampledGaussians> run) {
        for (const SampledGaussians& part : run) {
            if (part.sampling_probability < 1)
                sampled.push_back({part.noise_multiplier, part.sampling_probability, part.steps});
            else
                mu2 += part.steps / (part.noise_multiplier * part.noise_multiplier);
        }
    }
};

std::vector<grid::Part> on_grid(std::span<const SampledGaussians> run, bool add) {
    std::vector<grid::Part> parts;
    for (const SampledGaussians& part : run) {
        const grid::LawPtr base = grid::gaussian(1 / part.noise_multiplier);
        const double q = part.sampling_probability;
        parts.push_back({q < 1 ? grid::poisson(base, q, add) : base, part.steps});
    }
    return parts;
}

// mu of the run without sampling, which dominates it (grid.md 6.1), or nothing where the closed form has no answer.
std::optional<double> unsampled(const std::vector<SampledGaussians>& run) {
    CompensatedSum mu2;
    for (const SampledGaussians& part : run) mu2 += part.steps / (part.noise_multiplier * part.noise_multiplier);
    const double mu = std::sqrt(mu2) * (1 + 8 * kUnitRoundoff);
    return mu >= kGaussianMuMin && mu <= kGaussianMuMax ? std::optional(mu) : std::nullopt;
}

// The larger of both directions, each by the contour or else by the grid.
template <class Contour, class Grid>
Interval worse(const std::vector<SampledGaussians>& run, double at, Contour by_contour, Grid by_grid) {
    const work::Budget budget(kUnits);
    const Parts parts(run);
    Interval both{0, 0};
    for (const bool add : {false, true}) {
        const contour::Composition composition{parts.sampled, parts.mu2, contour::add_or_remove(add)};
        const contour::Result found = by_contour(composition, at, kTolerance);
        Interval one{found.lower, found.upper};
        if (found.status != contour::Status::certified) {
            const grid::Bounds found = by_grid(on_grid(run, add), at, kWidth, kMostPoints);
            one = {found.lower, found.upper};
        }
        both = {std::max(both.lower, one.lower), std::max(both.upper, one.upper)};
        if (parts.sampled.empty()) break;  // plain Gaussians: the directions are one
    }
    return both;
}

}  // namespace

Interval sampled_gaussians_epsilon(std::span<const SampledGaussians> run, double delta) {
    check(run);
    if (!(delta > 0 && delta < 1)) throw std::invalid_argument("delta: expected a number in (0, 1)");
    const std::vector<SampledGaussians> parts = merged(run);
    Interval found = worse(parts, delta, contour::epsilon, grid::epsilon);
    if (const auto mu = unsampled(parts); mu && !(found.upper < HUGE_VAL) && delta >= 1e-300)
        found.upper = gaussian_epsilon(*mu, delta).upper;
    return found;
}

Interval sampled_gaussians_delta(std::span<const SampledGaussians> run, double epsilon) {
    check(run);
    if (!std::isfinite(epsilon)) throw std::invalid_argument("epsilon: expected a finite number");
    const std::vector<SampledGaussians> parts = merged(run);
    Interval found = worse(parts, epsilon, contour::delta, grid::delta);
    if (const auto mu = unsampled(parts); mu && !(found.upper < 1))
        found.upper = gaussian_bounds(*mu, epsilon).delta.upper;
    return found;
}

}  // namespace tightdp
