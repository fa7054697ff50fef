#include "tightdp/accounting/sampled_gaussians.hpp"

#include <cmath>
#include <stdexcept>

#include "tightdp/accounting/composition.hpp"

namespace tightdp {
namespace {

Composition compose_sampled_gaussians(std::span<const SampledGaussians> run) {
    if (run.empty()) throw std::invalid_argument("run: expected at least one entry");
    Composition made;
    for (const SampledGaussians& part : run) {
        if (!(part.steps >= 1 && part.steps < 0x1p53 && part.steps == std::floor(part.steps)))
            throw std::invalid_argument("steps: expected an integer in [1, 2^53)");
        made.add(Mechanism::gaussian(part.noise_multiplier).poisson_sampled(part.sampling_probability), part.steps);
    }
    return made;
}

}  // namespace

Interval sampled_gaussians_epsilon(std::span<const SampledGaussians> run, double delta) {
    return compose_sampled_gaussians(run).epsilon(delta);
}

Interval sampled_gaussians_delta(std::span<const SampledGaussians> run, double epsilon) {
    return compose_sampled_gaussians(run).delta(epsilon);
}

}  // namespace tightdp
