// Many epsilon(delta) queries on a device. The twin of epsilon_batch.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tightdp::cuda {

// Arrays of n in device memory, settings as in epsilon_batch.hpp with q < 1. status 0: declined (lower 0, upper inf);
// ask the CPU. Returns once the work is queued on `stream`. Throws Error.
void epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps, const double* delta,
                   double tolerance, double* lower, double* upper, unsigned char* status, cudaStream_t stream);

}  // namespace tightdp::cuda
