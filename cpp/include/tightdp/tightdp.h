/* epsilon and delta of any composition of mechanisms, certified, and the noise that meets a target, for C and what
 * calls C. Link with the shared library tightdp_c (pkg-config tightdp_c, tightdp::c in CMake, tightdp.get_library() in
 * Python); it needs no Python and no C++.
 *
 *     tightdp_composition* run = tightdp_composition_new();
 *     tightdp_interval epsilon;
 *     if (tightdp_add_gaussian(run, 1.1, 0.01, 10000) || tightdp_add_laplace(run, 20.0, 1.0, 3) ||
 *         tightdp_composition_epsilon(run, 1e-5, &epsilon))
 *         fputs(tightdp_last_error(), stderr);
 *     tightdp_composition_free(run);
 *
 * Mechanisms may be run in any order, and adaptively. Neighbours add or remove one record: the bounds hold for the
 * worse of the two. Sensitivities are those of one record's contribution. Both ends of an interval are certified; the
 * upper one is the guarantee.
 *
 * Functions may be called from any thread, but a composition must not be changed while another thread uses it. None
 * throws, prints or exits. Each returns TIGHTDP_OK or another code below; then tightdp_last_error() names the argument
 * and the range that was expected, a composition is as it was before, and an interval is one that always holds (0 to
 * infinity, 0 to 1). A question takes milliseconds, and at most some five seconds of one core, where bounds may be
 * wide; a calibration takes some twenty questions, and at most about half a minute. Floating-point exceptions stay
 * inside: they raise no signal and leave no flag. Symbols carry the version TIGHTDP_0.1: what was linked against it
 * keeps working with later libraries of the same SONAME.
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

/* Values are part of the interface and do not change. */
enum {
    TIGHTDP_OK = 0,
    TIGHTDP_INVALID_ARGUMENT = 1, /* an argument is outside of its range */
    TIGHTDP_ARITHMETIC = 2,       /* this thread does not round to nearest, or flushes subnormal numbers */
    TIGHTDP_NO_MEMORY = 3,
    TIGHTDP_INTERNAL = 4 /* a mistake of the library's, or an exception that a callback threw */
};

/* What is released in all. */
typedef struct tightdp_composition tightdp_composition;

/* Nothing yet; NULL where memory is short. */
TIGHTDP_API tightdp_composition* tightdp_composition_new(void);
/* NULL is allowed. */
TIGHTDP_API void tightdp_composition_free(tightdp_composition* run);

/* Each adds `count` runs of a mechanism, an integer in [1, 2^53). With sampling_probability in (0, 1), each of them is
 * on a batch that holds every record with that probability, independently; 1 is no sampling. */

/* Noise N(0, sigma^2 I): sigma over the bound on the L2 norm, in [1e-6, 1e12]. */
TIGHTDP_API int tightdp_add_gaussian(tightdp_composition* run, double noise_multiplier, double sampling_probability,
                                     double count);
/* Laplace noise: its scale over the bound on the L1 norm, in [1e-6, 1e12]. */
TIGHTDP_API int tightdp_add_laplace(tightdp_composition* run, double noise_multiplier, double sampling_probability,
                                    double count);
/* Integer noise, P(n) ~ exp(-n^2 / (2 sigma^2)) with sigma in [1e-6, 20000], or exp(-|n| / scale) with scale in
 * [1e-6, 1e12], on a count that one record moves by at most `sensitivity`, an integer in [1, 1e6]. */
TIGHTDP_API int tightdp_add_discrete_gaussian(tightdp_composition* run, double sigma, double sensitivity,
                                              double sampling_probability, double count);
TIGHTDP_API int tightdp_add_discrete_laplace(tightdp_composition* run, double scale, double sensitivity,
                                             double sampling_probability, double count);
/* Anything that is (epsilon, delta)-DP; epsilon in [0, 1e6], delta in [0, 1], 0 being pure differential privacy. */
TIGHTDP_API int tightdp_add_approximate_dp(tightdp_composition* run, double epsilon, double delta,
                                           double sampling_probability, double count);
/* Anything whose losses lie in some interval of length eta in [0, 1e6], as those of the exponential mechanism do. */
TIGHTDP_API int tightdp_add_bounded_range(tightdp_composition* run, double eta, double sampling_probability,
                                          double count);
/* With probability noise_parameter in (0, 1] one of num_buckets answers at random, an integer in [2, 2^53); otherwise
 * the true one. */
TIGHTDP_API int tightdp_add_randomized_response(tightdp_composition* run, double noise_parameter, double num_buckets,
                                                double count);
/* Noise N(0, sigma^2 I), sigma = noise_multiplier in [1e-6, 1e12], on a sum to which a record contributes a vector of
 * norm at most sensitivities[i] with probability probabilities[i] > 0, which add up to 1 within 1e-9. `length` is at
 * most 1000; sensitivities are distinct and in [0, 1e12], the largest between 1e-9 and 1e6 times sigma. */
TIGHTDP_API int tightdp_add_mixture_of_gaussians(tightdp_composition* run, double noise_multiplier,
                                                 const double* sensitivities, const double* probabilities,
                                                 size_t length, double sampling_probability, double count);

/* Bounds on the least epsilon >= 0 for which the whole is (epsilon, delta)-private; 0 < delta < 1. */
TIGHTDP_API int tightdp_composition_epsilon(const tightdp_composition* run, double delta, tightdp_interval* epsilon);
/* Bounds on delta at any finite epsilon. */
TIGHTDP_API int tightdp_composition_delta(const tightdp_composition* run, double epsilon, tightdp_interval* delta);

/* Adds what is released at this parameter to an empty composition. Any code but TIGHTDP_OK says that the parameter does
 * not serve. The composition lasts until the function returns. */
typedef int (*tightdp_run_at)(double parameter, tightdp_composition* run, void* context);

/* The least parameter in [low, high] at which the target is met: the upper end of epsilon at delta is at most `epsilon`
 * there, and the parameter is within 1e-9 of the boundary, relatively. A larger parameter must mean more privacy, as
 * more noise does. TIGHTDP_INVALID_ARGUMENT, and infinity, where even `high` does not meet the target. */
TIGHTDP_API int tightdp_calibrate(tightdp_run_at run_at, void* context, double epsilon, double delta, double low,
                                  double high, double* parameter);

/* The least noise multiplier in [1e-4, 1e6] of DP-SGD: `steps` Gaussians, each on a Poisson sample. */
TIGHTDP_API int tightdp_noise_multiplier(double epsilon, double delta, double sampling_probability, double steps,
                                         double* noise_multiplier);

/* DP-SGD in one call. */
typedef struct {
    double noise_multiplier;     /* sigma / sensitivity, in [1e-6, 1e12] */
    double sampling_probability; /* in (0, 1]; 1: plain Gaussians */
    double steps;                /* an integer in [1, 2^53) */
} tightdp_sampled_gaussians;

TIGHTDP_API int tightdp_epsilon(const tightdp_sampled_gaussians* run, size_t count, double delta,
                                tightdp_interval* epsilon);
TIGHTDP_API int tightdp_delta(const tightdp_sampled_gaussians* run, size_t count, double epsilon,
                              tightdp_interval* delta);

/* What was wrong with this thread's last call, or "". Valid until the thread's next call. */
TIGHTDP_API const char* tightdp_last_error(void);

/* "major.minor.patch" */
TIGHTDP_API const char* tightdp_version(void);

#ifdef __cplusplus
}
#endif

#endif
