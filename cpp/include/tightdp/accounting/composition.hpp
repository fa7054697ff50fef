// Certified bounds on epsilon and delta of compositions of mechanisms, and the noise that meets a target. Link with
// tightdp::tightdp.
//
//     tightdp::Composition run;
//     run.add(tightdp::Mechanism::gaussian(1.1).poisson_sampled(0.01), 10000);
//     run.add(tightdp::Mechanism::laplace(20.0), 3);
//     const tightdp::Interval epsilon = run.epsilon(1e-5);
//
// The mechanisms may be run in any order, and chosen adaptively. Neighbouring data sets differ in one record that is
// added or removed, unless the composition is made for another relation. A sensitivity bounds the contribution of one
// record, whatever the relation. Both ends of an interval are certified, and the upper end is the guarantee. The proofs
// are in docs/theory/contour.md for Gaussians with and without sampling, in docs/theory/replace.md for "replace", and
// in docs/theory/grid.md for all other mechanisms. One bound usually takes milliseconds, and at most about five seconds
// of one core. A bound that reaches this limit may be wide.
//
// Bad arguments throw std::invalid_argument before any work, with a message that names the argument and its range.
// std::runtime_error is thrown if the calling thread or the C library does not compute as the proofs assume, and
// std::bad_alloc if memory is short.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tightdp/accounting/interval.hpp"

namespace tightdp {

// Relations of neighbouring data sets: a record is added or removed, replaced by another, or replaced by a record that
// contributes nothing. The last two relations leave the number of records as it is.
enum class Neighbors { add_or_remove, replace, replace_special };

// A mechanism that makes one release. Copies of a Mechanism are cheap.
class Mechanism {
  public:
    // Gaussian noise N(0, sigma^2 I). The multiplier is sigma divided by the bound on the L2 norm, in [1e-6, 1e12].
    static Mechanism gaussian(double noise_multiplier);
    // Laplace noise. The multiplier is the scale of the noise divided by the bound on the L1 norm, in [1e-6, 1e12].
    static Mechanism laplace(double noise_multiplier);
    // Integer noise on a count that one record changes by at most `sensitivity`, an integer in [1, 1e6]. The
    // probability that the noise is n is proportional to exp(-n^2 / 2 sigma^2) with sigma in [1e-6, 20000], or to
    // exp(-|n| / scale) with scale in [1e-6, 1e12].
    static Mechanism discrete_gaussian(double sigma, double sensitivity = 1);
    static Mechanism discrete_laplace(double scale, double sensitivity = 1);
    // Any mechanism that is epsilon-DP or (epsilon, delta)-DP, with epsilon in [0, 1e6] and delta in [0, 1].
    static Mechanism pure_dp(double epsilon);
    static Mechanism approximate_dp(double epsilon, double delta);
    // Any mechanism whose privacy loss, for each pair of neighbours, lies in some interval of length eta. The
    // exponential mechanism is an example. eta is in [0, 1e6].
    static Mechanism bounded_range(double eta);
    // Randomised response. With probability `noise_parameter` in (0, 1] the answer is chosen uniformly from
    // `num_buckets` answers, and otherwise the answer is the true one. `num_buckets` is an integer in [2, 2^53).
    // Randomised response cannot be sampled.
    static Mechanism randomized_response(double noise_parameter, double num_buckets);
    // Gaussian noise on a sum to which a record contributes at random: a vector of norm at most sensitivities[i] with
    // probability probabilities[i] > 0. Probabilities add up to 1 within 1e-9. There are at most 1000 sensitivities,
    // which are distinct and in [0, 1e12]. The standard deviation of the noise, `noise_multiplier`, is in [1e-6, 1e12].
    // The largest sensitivity is between 1e-9 and 1e6 times this deviation.
    static Mechanism mixture_of_gaussians(double noise_multiplier, std::span<const double> sensitivities,
                                          std::span<const double> probabilities);

    // Returns the same mechanism on a Poisson sample, with a sampling probability in (0, 1]. A mechanism on a sample
    // cannot be sampled again.
    Mechanism poisson_sampled(double sampling_probability) const;

    struct Content;
    const Content& accounting_content() const { return *content_; }

  private:
    // Returns a mechanism whose privacy loss under Neighbors::add_or_remove is the privacy loss of this mechanism under
    // `neighbors`.
    Mechanism translate_for_accounting(Neighbors neighbors) const;

    friend class Composition;

    explicit Mechanism(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

    std::shared_ptr<const Content> content_;
};

// The composition of all releases, and the relation of the data sets for which epsilon and delta are bounded. While one
// thread adds to a composition, no other thread may use it.
class Composition {
  public:
    explicit Composition(Neighbors neighbors = Neighbors::add_or_remove) : neighbors_(neighbors) {}

    struct Part {
        Mechanism mechanism;
        double count;
    };

    // Adds `count` runs of a mechanism, where count is an integer in [1, 2^53). If add() throws, the composition is
    // unchanged. A caller that catches the exception and goes on gets bounds without this mechanism.
    Composition& add(const Mechanism& mechanism, double count = 1);

    // Bounds the least epsilon >= 0 for which the composition is (epsilon, delta)-private, where 0 < delta < 1.
    Interval epsilon(double delta) const;
    // Bounds delta at any finite epsilon.
    Interval delta(double epsilon) const;

    bool empty() const { return parts_.empty(); }

  private:
    Neighbors neighbors_;
    std::vector<Part> parts_;
};

// Finds the least parameter in [low, high] that meets the target run(parameter).epsilon(delta).upper <= epsilon, as
// closely as the search allows. The result always meets the target. A larger parameter must give more privacy, as more
// noise does. A parameter for which `run` throws std::invalid_argument does not meet the target. If even `high` does
// not meet the target, this function throws std::invalid_argument.
//
// The search ends if the result is within a relative 1e-9 of a parameter that does not meet the target, or if its bound
// is within a relative 1e-9 of epsilon. The search also ends if `low` meets the target, or if the limit of work is
// reached. It computes about twenty bounds. Together they take at most about half a minute of one core. Preconditions:
// epsilon >= 0, 0 < delta < 1, 0 < low < high.
double calibrate(const std::function<Composition(double)>& run, double epsilon, double delta, double low, double high);

// Finds the least noise multiplier in [1e-4, 1e6] with which DP-SGD meets the target. DP-SGD consists of `steps`
// Gaussian mechanisms, each on a Poisson sample.
double noise_multiplier(double epsilon, double delta, double sampling_probability, double steps);

}  // namespace tightdp
