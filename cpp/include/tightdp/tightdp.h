/* Certified bounds on epsilon and delta of compositions of mechanisms, and the noise that meets a target, for C and for
 * languages that call C. Link with the shared library tightdp_c (pkg-config tightdp_c, tightdp::c in CMake,
 * tightdp.get_library() in Python). The library needs neither Python nor C++.
 *
 *     tightdp_composition* run = tightdp_composition_new();
 *     tightdp_interval epsilon;
 *     if (tightdp_add_gaussian(run, 1.1, 0.01, 10000) || tightdp_add_laplace(run, 20.0, 1.0, 3) ||
 *         tightdp_composition_epsilon(run, 1e-5, &epsilon))
 *         fputs(tightdp_last_error(), stderr);
 *     tightdp_composition_free(run);
 *
 * Mechanisms may be run in any order, and adaptively. Bounds are for the worse of two cases, an added
 * record and a removed record, unless tightdp_composition_set_neighbors() chooses another relation. A sensitivity
 * bounds the contribution of one record. Both ends of an interval are certified. The upper end is the guarantee.
 *
 * Functions may be called from any thread, but a composition must not be changed while another thread uses it. No
 * function throws, prints or exits. A function that returns an int returns TIGHTDP_OK or an error code from the list
 * below. After an error, tightdp_last_error() names the argument and the expected range. The returned interval is then
 * [0, infinity] for epsilon and [0, 1] for delta, which always holds.
 *
 * A composition remembers the first call that failed to change it, because a bound without what that call should have
 * added would be too low. All later calls for this composition return the code and the message of this failure, and do
 * nothing else. A question that fails changes no composition, and is not remembered.
 *
 * One bound usually takes milliseconds, and at most about five seconds of one core. A bound that reaches this limit may
 * be wide. A calibration computes about twenty bounds, and takes at most about half a minute. Floating-point exceptions
 * inside the library raise no signal and leave no flag. Symbols carry the version TIGHTDP_0.1, so programs that were
 * linked against it keep working with later libraries of the same SONAME.
 */
#ifndef TIGHTDP_H
#define TIGHTDP_H

#include <stddef.h>

#if defined(_WIN32) && defined(TIGHTDP_C_BUILDS)
#define TIGHTDP_API __declspec(dllexport)
#elif defined(__GNUC__)
#define TIGHTDP_API __attribute__((visibility("default")))
#else
#define TIGHTDP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    double lower, upper;
} tightdp_interval;

/* Error codes. Their values are part of the interface and do not change. */
enum {
    TIGHTDP_OK = 0,
    TIGHTDP_INVALID_ARGUMENT = 1, /* an argument is outside of its range */
    TIGHTDP_ARITHMETIC = 2,       /* this thread or the C library does not compute as the proofs assume */
    TIGHTDP_NO_MEMORY = 3,
    TIGHTDP_INTERNAL = 4 /* a mistake in the library, or an exception that a callback threw */
};

/* A composition has all releases whose privacy is bounded together. */
typedef struct tightdp_composition tightdp_composition;

/* Returns an empty composition, or NULL if memory is short. */
TIGHTDP_API tightdp_composition* tightdp_composition_new(void);
/* Frees a composition, which may be NULL. */
TIGHTDP_API void tightdp_composition_free(tightdp_composition* run);

/* Neighbouring relations. Their values do not change. */
enum {
    TIGHTDP_ADD_OR_REMOVE = 0,
    TIGHTDP_REPLACE = 1,        /* one record is replaced by any other */
    TIGHTDP_REPLACE_SPECIAL = 2 /* one record is replaced by one that contributes nothing */
};

/* Chooses the relation for which a composition is bounded, before any mechanism is added. In a calibration, the
 * callback tightdp_run_at chooses the relation of its composition. */
TIGHTDP_API int tightdp_composition_set_neighbors(tightdp_composition* run, int neighbors);

/* Each of the following functions adds `count` runs of a mechanism, where count is an integer in [1, 2^53). If
 * sampling_probability is in (0, 1), each run uses its own Poisson sample, which holds each record independently with
 * that probability. If it is 1, nothing is sampled. */

/* Adds Gaussian noise N(0, sigma^2 I). noise_multiplier is sigma divided by the bound on the L2 norm, in [1e-6, 1e12].
 */
TIGHTDP_API int tightdp_add_gaussian(tightdp_composition* run, double noise_multiplier, double sampling_probability,
                                     double count);
/* Adds Laplace noise. noise_multiplier is the scale divided by the bound on the L1 norm, in [1e-6, 1e12]. */
TIGHTDP_API int tightdp_add_laplace(tightdp_composition* run, double noise_multiplier, double sampling_probability,
                                    double count);
/* Adds integer noise to an integer that one record changes by at most `sensitivity`, an integer in [1, 1e6]. The
 * probability of n is proportional to exp(-n^2 / (2 sigma^2)) with sigma in [1e-6, 20000], or to exp(-|n| / scale) with
 * scale in [1e-6, 1e12]. */
TIGHTDP_API int tightdp_add_discrete_gaussian(tightdp_composition* run, double sigma, double sensitivity,
                                              double sampling_probability, double count);
TIGHTDP_API int tightdp_add_discrete_laplace(tightdp_composition* run, double scale, double sensitivity,
                                             double sampling_probability, double count);
/* Adds any mechanism that is (epsilon, delta)-DP, with epsilon in [0, 1e6] and delta in [0, 1]. delta = 0 is pure
 * differential privacy. */
TIGHTDP_API int tightdp_add_approximate_dp(tightdp_composition* run, double epsilon, double delta,
                                           double sampling_probability, double count);
/* Adds any mechanism whose privacy loss lies in an interval of length eta in [0, 1e6], such as the exponential
 * mechanism. */
TIGHTDP_API int tightdp_add_bounded_range(tightdp_composition* run, double eta, double sampling_probability,
                                          double count);
/* Adds randomised response. With probability noise_parameter in (0, 1] the answer is chosen uniformly from num_buckets
 * answers, and otherwise it is the true one. num_buckets is an integer in [2, 2^53). */
TIGHTDP_API int tightdp_add_randomized_response(tightdp_composition* run, double noise_parameter, double num_buckets,
                                                double count);
/* Adds Gaussian noise N(0, sigma^2 I), where sigma = noise_multiplier is in [1e-6, 1e12], on a sum to which a record
 * contributes at random: a vector of norm at most sensitivities[i] with probability probabilities[i] > 0.
 * Probabilities add up to 1 within 1e-9. Sensitivities are distinct and in [0, 1e12], and the largest is between 1e-9
 * and 1e6 times sigma. `length` is the length of both arrays, at most 1000. */
TIGHTDP_API int tightdp_add_mixture_of_gaussians(tightdp_composition* run, double noise_multiplier,
                                                 const double* sensitivities, const double* probabilities,
                                                 size_t length, double sampling_probability, double count);

/* Bounds the least epsilon >= 0 for which the composition is (epsilon, delta)-private, where 0 < delta < 1. */
TIGHTDP_API int tightdp_composition_epsilon(const tightdp_composition* run, double delta, tightdp_interval* epsilon);
/* Bounds delta at any finite epsilon. */
TIGHTDP_API int tightdp_composition_delta(const tightdp_composition* run, double epsilon, tightdp_interval* delta);

/* A callback of tightdp_calibrate(). It gets a parameter and an empty composition, to which it adds the releases that
 * are made with this parameter. If it returns any code but TIGHTDP_OK, or a call failed to change the composition, the
 * parameter does not meet the target. The composition exists until the callback returns. */
typedef int (*tightdp_run_at)(double parameter, tightdp_composition* run, void* context);

/* Finds the least parameter in [low, high] for which the upper end of epsilon at delta is at most the target `epsilon`.
 * The result always meets the target. The search ends if the result is within a relative 1e-9 of a parameter that does
 * not meet the target, or if its bound is within a relative 1e-9 of the target. The search also ends if `low` meets the
 * target, or if the limit of work is reached. A larger parameter must give more privacy, as more noise does. If even
 * `high` does not meet the target, the function returns TIGHTDP_INVALID_ARGUMENT and sets the parameter to infinity. */
TIGHTDP_API int tightdp_calibrate(tightdp_run_at run_at, void* context, double epsilon, double delta, double low,
                                  double high, double* parameter);

/* Finds the least noise multiplier in [1e-4, 1e6] with which DP-SGD meets the target. DP-SGD consists of `steps`
 * Gaussian mechanisms, each on a Poisson sample. */
TIGHTDP_API int tightdp_noise_multiplier(double epsilon, double delta, double sampling_probability, double steps,
                                         double* noise_multiplier);

/* A run of DP-SGD. The two functions below bound the composition of an array of `count` such runs. */
typedef struct {
    double noise_multiplier;     /* sigma / sensitivity, in [1e-6, 1e12] */
    double sampling_probability; /* in (0, 1]; 1 means no sampling */
    double steps;                /* an integer in [1, 2^53) */
} tightdp_sampled_gaussians;

TIGHTDP_API int tightdp_epsilon(const tightdp_sampled_gaussians* run, size_t count, double delta,
                                tightdp_interval* epsilon);
TIGHTDP_API int tightdp_delta(const tightdp_sampled_gaussians* run, size_t count, double epsilon,
                              tightdp_interval* delta);

/* Describes the error of this thread's last call, or returns "" if there was none. The string is valid until the
 * thread's next call. */
TIGHTDP_API const char* tightdp_last_error(void);

/* Returns the version as "major.minor.patch". */
TIGHTDP_API const char* tightdp_version(void);

#ifdef __cplusplus
}
#endif

#endif
