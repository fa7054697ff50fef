// The C interface. It converts arguments and exceptions for the functions of tightdp/accounting, and contains no
// mathematics.
#include "tightdp/tightdp.h"

#include <cfenv>
#include <cmath>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tightdp/accounting/composition.hpp"
#include "tightdp/accounting/sampled_gaussians.hpp"

namespace {

constexpr std::size_t kMostMessage = 256;

// Copies the message `what`, shortened if necessary.
void copy_c_message(char (&to)[kMostMessage], const char* what) noexcept {
    std::size_t n = 0;
    for (; what[n] && n + 1 < sizeof to; ++n) to[n] = what[n];
    to[n] = '\0';
}

}  // namespace

// A composition, and the first failure of a call that should have changed it. If this call should have added steps, a
// bound without these steps would be too low. Every later change and question therefore returns the same failure.
struct tightdp_composition {
    tightdp::Composition run;
    int failure = TIGHTDP_OK;
    char message[kMostMessage] = "";
};

namespace {

using tightdp::Interval;
using tightdp::Mechanism;

constexpr tightdp_interval kAnyEpsilon{0, HUGE_VAL}, kAnyDelta{0, 1};

// The message of this thread's last error. The buffer has a fixed size, so that reporting a lack of memory needs no
// memory.
thread_local char last_error[kMostMessage] = "";

// Stores the message `what`, shortened if necessary, and returns `code`.
int store_c_error(int code, const char* what) noexcept {
    copy_c_message(last_error, what);
    return code;
}

// Exception of a call that needs a composition which an earlier call failed to change.
struct EarlierFailure {
    int code;
    const char* message;
};

// Keeps floating-point exceptions from raising a signal or leaving a flag while an object of this class lives.
class Untrapped {
  public:
    Untrapped() noexcept { std::feholdexcept(&before_); }
    ~Untrapped() { std::fesetenv(&before_); }
    Untrapped(const Untrapped&) = delete;
    Untrapped& operator=(const Untrapped&) = delete;

  private:
    std::fenv_t before_;
};

// Runs work() and returns an error code for any exception.
template <class Work>
int guard_c_call(Work work) noexcept {
    last_error[0] = '\0';
    const Untrapped untrapped;
    try {
        work();
        last_error[0] = '\0';  // removes a message that the caller's run_at may have left
        return TIGHTDP_OK;
    } catch (const EarlierFailure& e) {
        return store_c_error(e.code, e.message);
    } catch (const std::invalid_argument& e) {
        return store_c_error(TIGHTDP_INVALID_ARGUMENT, e.what());
    } catch (const std::length_error&) {
        return store_c_error(TIGHTDP_INVALID_ARGUMENT, "count: expected the number of entries of run");
    } catch (const std::bad_alloc&) {
        return store_c_error(TIGHTDP_NO_MEMORY, "out of memory");
    } catch (const std::runtime_error& e) {
        return store_c_error(TIGHTDP_ARITHMETIC, e.what());
    } catch (...) {
        return store_c_error(TIGHTDP_INTERNAL, "internal error");
    }
}

// Returns the object that a pointer points to. Throws std::invalid_argument if the pointer is NULL.
template <class T>
T& require_c_pointer(T* pointer, const char* message) {
    if (!pointer) throw std::invalid_argument(message);
    return *pointer;
}

// Returns the composition of `run`. Throws EarlierFailure if a call failed to change it.
template <class T>
auto& require_c_run(T* run) {
    require_c_pointer(run, "run: expected a composition, got NULL");
    if (run->failure != TIGHTDP_OK) throw EarlierFailure{run->failure, run->message};
    return run->run;
}

// Runs change(composition). The composition remembers the first failure.
template <class Change>
int change_c_composition(tightdp_composition* run, Change change) noexcept {
    const int code = guard_c_call([&] { change(require_c_run(run)); });
    if (code != TIGHTDP_OK && run && run->failure == TIGHTDP_OK) {
        run->failure = code;
        copy_c_message(run->message, last_error);
    }
    return code;
}

// Adds `count` steps of the mechanism that make() returns, each with this sampling probability.
template <class Make>
int add_c_mechanism(tightdp_composition* run, double sampling_probability, double count, Make make) noexcept {
    return change_c_composition(run, [&](tightdp::Composition& changed) {
        changed.add(make().poisson_sampled(sampling_probability), count);
    });
}

// Sets `out` to `unknown`, and then to the result of question() unless this call throws.
template <class Out, class Question>
int answer_c_question(Out* out, Out unknown, Question question) noexcept {
    if (out) *out = unknown;
    return guard_c_call([&] {
        require_c_pointer(out, "result: expected a pointer, got NULL");
        *out = question();
    });
}

tightdp_interval make_c_interval(const Interval& found) {
    return {found.lower, found.upper};
}

tightdp::Neighbors read_c_neighbors(int neighbors) {
    switch (neighbors) {
        case TIGHTDP_ADD_OR_REMOVE:
            return tightdp::Neighbors::add_or_remove;
        case TIGHTDP_REPLACE:
            return tightdp::Neighbors::replace;
        case TIGHTDP_REPLACE_SPECIAL:
            return tightdp::Neighbors::replace_special;
        default:
            throw std::invalid_argument(
                "neighbors: expected TIGHTDP_ADD_OR_REMOVE, TIGHTDP_REPLACE or TIGHTDP_REPLACE_SPECIAL");
    }
}

std::vector<tightdp::SampledGaussians> read_c_entries(const tightdp_sampled_gaussians* run, size_t count) {
    if (!run || count == 0) throw std::invalid_argument("run: expected at least one entry");
    std::vector<tightdp::SampledGaussians> entries;
    entries.reserve(count);
    for (size_t i = 0; i < count; ++i)
        entries.push_back({run[i].noise_multiplier, run[i].sampling_probability, run[i].steps});
    return entries;
}

}  // namespace

tightdp_composition* tightdp_composition_new(void) {
    tightdp_composition* made = nullptr;
    guard_c_call([&] { made = new tightdp_composition; });
    return made;
}

void tightdp_composition_free(tightdp_composition* run) {
    delete run;
}

int tightdp_composition_set_neighbors(tightdp_composition* run, int neighbors) {
    return change_c_composition(run, [=](tightdp::Composition& changed) {
        if (!changed.empty())
            throw std::invalid_argument("run: expected a composition to which nothing was added yet");
        changed = tightdp::Composition(read_c_neighbors(neighbors));
    });
}

int tightdp_add_gaussian(tightdp_composition* run, double noise_multiplier, double sampling_probability, double count) {
    return add_c_mechanism(run, sampling_probability, count, [=] { return Mechanism::gaussian(noise_multiplier); });
}

int tightdp_add_laplace(tightdp_composition* run, double noise_multiplier, double sampling_probability, double count) {
    return add_c_mechanism(run, sampling_probability, count, [=] { return Mechanism::laplace(noise_multiplier); });
}

int tightdp_add_discrete_gaussian(tightdp_composition* run, double sigma, double sensitivity,
                                  double sampling_probability, double count) {
    return add_c_mechanism(run, sampling_probability, count,
                           [=] { return Mechanism::discrete_gaussian(sigma, sensitivity); });
}

int tightdp_add_discrete_laplace(tightdp_composition* run, double scale, double sensitivity,
                                 double sampling_probability, double count) {
    return add_c_mechanism(run, sampling_probability, count,
                           [=] { return Mechanism::discrete_laplace(scale, sensitivity); });
}

int tightdp_add_approximate_dp(tightdp_composition* run, double epsilon, double delta, double sampling_probability,
                               double count) {
    return add_c_mechanism(run, sampling_probability, count, [=] { return Mechanism::approximate_dp(epsilon, delta); });
}

int tightdp_add_bounded_range(tightdp_composition* run, double eta, double sampling_probability, double count) {
    return add_c_mechanism(run, sampling_probability, count, [=] { return Mechanism::bounded_range(eta); });
}

int tightdp_add_randomized_response(tightdp_composition* run, double noise_parameter, double num_buckets,
                                    double count) {
    return add_c_mechanism(run, 1, count, [=] { return Mechanism::randomized_response(noise_parameter, num_buckets); });
}

int tightdp_add_mixture_of_gaussians(tightdp_composition* run, double noise_multiplier, const double* sensitivities,
                                     const double* probabilities, size_t length, double sampling_probability,
                                     double count) {
    return add_c_mechanism(run, sampling_probability, count, [=] {
        require_c_pointer(sensitivities, "sensitivities: expected a pointer, got NULL");
        require_c_pointer(probabilities, "probabilities: expected a pointer, got NULL");
        return Mechanism::mixture_of_gaussians(noise_multiplier, {sensitivities, length}, {probabilities, length});
    });
}

int tightdp_composition_epsilon(const tightdp_composition* run, double delta, tightdp_interval* epsilon) {
    return answer_c_question(epsilon, kAnyEpsilon,
                             [=] { return make_c_interval(require_c_run(run).epsilon(delta)); });
}

int tightdp_composition_delta(const tightdp_composition* run, double epsilon, tightdp_interval* delta) {
    return answer_c_question(delta, kAnyDelta, [=] { return make_c_interval(require_c_run(run).delta(epsilon)); });
}

int tightdp_calibrate(tightdp_run_at run_at, void* context, double epsilon, double delta, double low, double high,
                      double* parameter) {
    return answer_c_question(parameter, HUGE_VAL, [=] {
        if (!run_at) throw std::invalid_argument("run_at: expected a function, got NULL");
        const auto run = [=](double at) {
            tightdp_composition built;
            if (run_at(at, &built, context) != TIGHTDP_OK || built.failure != TIGHTDP_OK)
                throw std::invalid_argument("the parameter does not serve");
            return built.run;
        };
        return tightdp::calibrate(run, epsilon, delta, low, high);
    });
}

int tightdp_noise_multiplier(double epsilon, double delta, double sampling_probability, double steps,
                             double* noise_multiplier) {
    return answer_c_question(noise_multiplier, HUGE_VAL,
                             [=] { return tightdp::noise_multiplier(epsilon, delta, sampling_probability, steps); });
}

int tightdp_epsilon(const tightdp_sampled_gaussians* run, size_t count, double delta, tightdp_interval* epsilon) {
    return answer_c_question(epsilon, kAnyEpsilon, [=] {
        return make_c_interval(tightdp::sampled_gaussians_epsilon(read_c_entries(run, count), delta));
    });
}

int tightdp_delta(const tightdp_sampled_gaussians* run, size_t count, double epsilon, tightdp_interval* delta) {
    return answer_c_question(delta, kAnyDelta, [=] {
        return make_c_interval(tightdp::sampled_gaussians_delta(read_c_entries(run, count), epsilon));
    });
}

const char* tightdp_last_error(void) {
    return last_error;
}

const char* tightdp_version(void) {
    return TIGHTDP_VERSION;
}
