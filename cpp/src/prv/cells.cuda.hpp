// Discretisation of privacy loss distributions on a device. `prv_cells` of prv/single_losses.cpp does the same on the
// host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "single_losses.hpp"

namespace tightdp::cuda {

// Computes prv::prv_cells on a device, with one thread for each cell. `out` has `count` doubles in device memory. The
// function returns once the work is queued on `stream`, and may throw Error.
void prv_cells(const prv::Law& law, double h, long long first, std::int64_t count, double* out, cudaStream_t stream);

}  // namespace tightdp::cuda
