// Clip, add up, add noise on a device. The twin of clipping/clipped_sum.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include "clipped_sum.hpp"

namespace tightdp::cuda {

// Computes tightdp::clipped_sum with every pointer of the request in device memory, the stream's key excepted. Returns
// once the work is queued on `stream`: no wait by the host. The result depends on the device's number of
// multiprocessors and on the shape alone. Throws Error.
void clipped_sum(const ClipRequest& request, cudaStream_t stream);

// Computes the exact form of tightdp::clipped_sum, request.grid > 0: the same integers, and with noise the same bits.
void exact_sum(const ClipRequest& request, cudaStream_t stream);

}  // namespace tightdp::cuda
