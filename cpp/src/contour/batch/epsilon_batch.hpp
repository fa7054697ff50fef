// Many independent epsilon(delta) queries on threads.
#pragma once

#include <cstdint>

#include "contour/engine.hpp"

namespace tightdp::contour {

// Writes, for each i < n, bounds on epsilon of steps[i] Poisson-subsampled Gaussians (q[i] = 1: plain ones) under
// add_or_remove, the larger of the two directions. status[i] is 1 where certified and 0 where the engine declined
// (lower 0, upper inf). Elements are independent: the result does not depend on the number of threads.
void epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps, const double* delta,
                   double tolerance, int threads, double* lower, double* upper, unsigned char* status);

}  // namespace tightdp::contour
