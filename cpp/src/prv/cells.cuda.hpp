// Privacy-loss discretisation on a device. The twin of prv/law.cpp's cells.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "law.hpp"

namespace tightdp::cuda {

// Computes prv::cells with `out`, count doubles, in device memory: a thread a cell. Returns once the work is queued on
// `stream`. Throws Error.
void prv_cells(const prv::Law& law, double h, long long first, std::int64_t count, double* out, cudaStream_t stream);

}  // namespace tightdp::cuda
