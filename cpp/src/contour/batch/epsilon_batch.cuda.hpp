// Bounds on epsilon(delta) for many independent settings, computed on a device. A setting consists of a noise
// multiplier, a sampling probability, a number of steps and a delta. epsilon_batch.hpp declares the same for threads of
// the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tightdp::cuda {

// Bounds the epsilon of steps[i] Gaussian mechanisms on Poisson samples with q[i] < 1, for each i < n. The bounds hold
// under add_or_remove. The arrays have n entries each, in device memory. A status of 0 means that the setting was
// declined (lower 0, upper inf), and the CPU's engine should be used. The function returns once the work is queued on
// `stream`, and may throw Error.
void epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps, const double* delta,
                   double tolerance, double* lower, double* upper, unsigned char* status, cudaStream_t stream);

}  // namespace tightdp::cuda
