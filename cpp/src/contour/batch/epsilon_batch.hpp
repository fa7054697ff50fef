// Bounds on epsilon(delta) for many independent settings, which several threads share. A setting consists of a noise
// multiplier, a sampling probability, a number of steps and a delta.
#pragma once

#include <cstdint>

#include "contour/epsilon_and_delta.hpp"

namespace tightdp::contour {

// Bounds, for each i < n, the epsilon of steps[i] Gaussian mechanisms on Poisson samples under add_or_remove: the
// larger of the bounds for "add" and for "remove". q[i] = 1 means no sampling. status[i] is 1 if the bounds are
// certified, and 0 if the engine declined (lower 0, upper inf). `tolerance` is the intended relative error of delta, in
// [1e-13, 1e-2]. Results do not depend on the number of threads.
void epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps, const double* delta,
                   double tolerance, int threads, double* lower, double* upper, unsigned char* status);

}  // namespace tightdp::contour
