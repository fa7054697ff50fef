// epsilon and delta of any composition of mechanisms, certified, and the noise that meets a target. Link with
// tightdp::tightdp.
//
//     tightdp::Composition run;
//     run.add(tightdp::Mechanism::gaussian(1.1).poisson_sampled(0.01), 10000);
//     run.add(tightdp::Mechanism::laplace(20.0), 3);
//     const tightdp::Interval epsilon = run.epsilon(1e-5);
//
// The mechanisms may be run in any order, and chosen adaptively. Neighbours add or remove one record; sensitivities are
// those of one record's contribution. Both ends are certified, and the upper one is the guarantee: Gaussians and their
// samples by docs/theory/contour.md, all others by docs/theory/grid.md. A question takes milliseconds, and at most some
// five seconds of one core, where bounds may be wide.
//
// Bad arguments throw std::invalid_argument, which names the argument and its range, before any work;
// std::runtime_error is thrown where the calling thread does not round to nearest or flushes subnormal numbers, and
// std::bad_alloc where memory is short.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tightdp/accounting/interval.hpp"

namespace tightdp {

// A mechanism that releases once. It is a value: copies are cheap and equal.
class Mechanism {
  public:
    // Noise N(0, sigma^2 I): sigma over the bound on the L2 norm, in [1e-6, 1e12].
    static Mechanism gaussian(double noise_multiplier);
    // Laplace noise: its scale over the bound on the L1 norm, in [1e-6, 1e12].
    static Mechanism laplace(double noise_multiplier);
    // Integer noise, P(n) ~ exp(-n^2 / 2 sigma^2) with sigma in [1e-6, 20000], or exp(-|n| / scale) with scale in
    // [1e-6, 1e12], on a count that one record moves by at most `sensitivity`, an integer in [1, 1e6].
    static Mechanism discrete_gaussian(double sigma, double sensitivity = 1);
    static Mechanism discrete_laplace(double scale, double sensitivity = 1);
    // Anything that is epsilon-DP, or (epsilon, delta)-DP; epsilon in [0, 1e6], delta in [0, 1].
    static Mechanism pure_dp(double epsilon);
    static Mechanism approximate_dp(double epsilon, double delta);
    // Anything whose losses lie in some interval of length eta in [0, 1e6], as those of the exponential mechanism do.
    static Mechanism bounded_range(double eta);
    // Randomised response: with probability `noise_parameter` in (0, 1] one of `num_buckets` answers at random, an
    // integer in [2, 2^53); otherwise the true one. Not to be sampled.
    static Mechanism randomized_response(double noise_parameter, double num_buckets);
    // Gaussian noise on a sum to which a record contributes a vector of norm at most sensitivities[i], distinct numbers
    // in [0, 1e12], with probabilities[i] > 0, which add up to 1 within 1e-9; at most 1000, and the largest sensitivity
    // between 1e-9 and 1e6 times the noise's deviation `noise_multiplier`, in [1e-6, 1e12].
    static Mechanism mixture_of_gaussians(double noise_multiplier, std::span<const double> sensitivities,
                                          std::span<const double> probabilities);

    // The same on a batch that holds each record with this probability in (0, 1]; what is sampled is not sampled again.
    Mechanism poisson_sampled(double sampling_probability) const;

    struct Content;
    const Content& content() const { return *content_; }

  private:
    explicit Mechanism(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

    std::shared_ptr<const Content> content_;
};

// The composition of all releases. Not for several threads at once while it is added to.
class Composition {
  public:
    struct Part {
        Mechanism mechanism;
        double count;
    };

    // `count` is an integer in [1, 2^53). An exception changes nothing.
    Composition& add(const Mechanism& mechanism, double count = 1);

    // Bounds on the least epsilon >= 0 for which the whole is (epsilon, delta)-private; 0 < delta < 1.
    Interval epsilon(double delta) const;
    // Bounds on delta at any finite epsilon.
    Interval delta(double epsilon) const;

    std::span<const Part> parts() const { return parts_; }

  private:
    std::vector<Part> parts_;
};

// The least parameter in [low, high] at which run(parameter) meets the target: run(result).epsilon(delta).upper is at
// most epsilon, and the parameter is within 1e-9 of the boundary, relatively. More noise must mean more privacy.
// Throws std::invalid_argument where even `high` does not meet it. A run that throws std::invalid_argument does not
// meet the target. epsilon >= 0, 0 < delta < 1, 0 < low < high; at most some twenty questions within a common budget of
// half a minute's work.
double calibrate(const std::function<Composition(double)>& run, double epsilon, double delta, double low, double high);

// The least noise multiplier in [1e-4, 1e6] of DP-SGD: Gaussians of that noise, each on a Poisson sample.
double noise_multiplier(double epsilon, double delta, double sampling_probability, double steps);

}  // namespace tightdp
