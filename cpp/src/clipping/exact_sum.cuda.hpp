// The exact form of clipped_sum.hpp on a device.
#pragma once

#include <cuda_runtime_api.h>

#include "clipped_sum.hpp"

namespace tightdp::cuda {

// request.grid > 0. The same integers, and with noise the same bits, as tightdp::clipped_sum.
void exact_sum(const ClipRequest& request, cudaStream_t stream);

}  // namespace tightdp::cuda
