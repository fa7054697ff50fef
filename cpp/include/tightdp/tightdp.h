/* epsilon and delta of a run of Poisson-sampled Gaussians (DP-SGD), certified, for C and what calls C. Link with
 * the shared library tightdp_c (tightdp::c in CMake, tightdp.get_library() in Python); it needs no Python.
 *
 *     const tightdp_sampled_gaussians run[] = {{1.1, 0.01, 10000}, {2.0, 0.02, 500}};
 *     tightdp_interval epsilon;
 *     if (tightdp_epsilon(run, 2, 1e-5, &epsilon) != TIGHTDP_OK) fputs(tightdp_last_error(), stderr);
 *
 * The run composes all entries of the list, in any order, and adaptively. Neighbours add or remove one record: the
 * bounds hold for the worse of the two. Both ends are certified; the upper one is the guarantee.
 *
 * Functions may be called from any thread, and none throws, prints or exits. If a function returns another code than
 * TIGHTDP_OK, the interval is one that always holds (0 to infinity, 0 to 1), never uninitialised, and
 * tightdp_last_error() says what was wrong and which range was expected. A call takes milliseconds, and at most some
 * five seconds of one core, where bounds may be wide. Floating-point exceptions stay inside: they raise no signal and
 * leave no flag. Symbols carry the version TIGHTDP_0.1: what was linked against it keeps working with later libraries
 * of the same name.
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
    double noise_multiplier;     /* sigma / sensitivity, in [1e-6, 1e12] */
    double sampling_probability; /* in (0, 1]; 1: plain Gaussians */
    double steps;                /* an integer in [1, 2^53) */
} tightdp_sampled_gaussians;

typedef struct {
    double lower, upper;
} tightdp_interval;

/* Values are part of the interface and do not change. */
enum {
    TIGHTDP_OK = 0,
    TIGHTDP_INVALID_ARGUMENT = 1, /* an argument is outside of its range */
    TIGHTDP_ARITHMETIC = 2,       /* this thread does not round to nearest, or flushes subnormal numbers */
    TIGHTDP_NO_MEMORY = 3,
    TIGHTDP_INTERNAL = 4 /* a mistake of the library's */
};

/* Bounds on the least epsilon >= 0 for which the run is (epsilon, delta)-private; 0 < delta < 1. */
TIGHTDP_API int tightdp_epsilon(const tightdp_sampled_gaussians* run, size_t count, double delta,
                                tightdp_interval* epsilon);

/* Bounds on delta at any finite epsilon. */
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
