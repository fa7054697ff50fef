// The C interface: arguments and exceptions of accounting/sampled_gaussians.hpp, and no mathematics.
#include "tightdp/tightdp.h"

#include <cfenv>
#include <cmath>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tightdp/accounting/sampled_gaussians.hpp"

namespace {

// Of fixed size: where memory is short, there may be none for a message.
thread_local char last_error[256] = "";

int failed(int code, const char* what) noexcept {
    std::size_t n = 0;
    for (; what[n] && n + 1 < sizeof last_error; ++n) last_error[n] = what[n];
    last_error[n] = '\0';
    return code;
}

// In its scope floating-point exceptions raise no signal, even if the caller has asked for one, and leave no flag.
class Untrapped {
  public:
    Untrapped() noexcept { std::feholdexcept(&before_); }
    ~Untrapped() { std::fesetenv(&before_); }
    Untrapped(const Untrapped&) = delete;
    Untrapped& operator=(const Untrapped&) = delete;

  private:
    std::fenv_t before_;
};

template <class Question>
int answered(const tightdp_sampled_gaussians* run, size_t count, tightdp_interval* out, tightdp_interval unknown,
             Question question) noexcept {
    last_error[0] = '\0';
    const Untrapped untrapped;
    if (!out) return failed(TIGHTDP_INVALID_ARGUMENT, "the interval to fill: expected a pointer, got NULL");
    *out = unknown;
    if (!run || count == 0) return failed(TIGHTDP_INVALID_ARGUMENT, "run: expected at least one entry");
    try {
        std::vector<tightdp::SampledGaussians> entries;
        entries.reserve(count);
        for (size_t i = 0; i < count; ++i)
            entries.push_back({run[i].noise_multiplier, run[i].sampling_probability, run[i].steps});
        const tightdp::Interval found = question(std::span<const tightdp::SampledGaussians>(entries));
        *out = {found.lower, found.upper};
        return TIGHTDP_OK;
    } catch (const std::invalid_argument& e) {
        return failed(TIGHTDP_INVALID_ARGUMENT, e.what());
    } catch (const std::length_error&) {
        return failed(TIGHTDP_INVALID_ARGUMENT, "count: expected the number of entries of run");
    } catch (const std::bad_alloc&) {
        return failed(TIGHTDP_NO_MEMORY, "out of memory");
    } catch (const std::runtime_error& e) {
        return failed(TIGHTDP_ARITHMETIC, e.what());
    } catch (...) {
        return failed(TIGHTDP_INTERNAL, "internal error");
    }
}

}  // namespace

int tightdp_epsilon(const tightdp_sampled_gaussians* run, size_t count, double delta, tightdp_interval* epsilon) {
    return answered(run, count, epsilon, {0, HUGE_VAL},
                    [=](auto entries) { return tightdp::sampled_gaussians_epsilon(entries, delta); });
}

int tightdp_delta(const tightdp_sampled_gaussians* run, size_t count, double epsilon, tightdp_interval* delta) {
    return answered(run, count, delta, {0, 1},
                    [=](auto entries) { return tightdp::sampled_gaussians_delta(entries, epsilon); });
}

const char* tightdp_last_error(void) { return last_error; }

const char* tightdp_version(void) { return TIGHTDP_VERSION; }
