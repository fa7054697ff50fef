// Clips examples, adds them up, and adds noise on a device (GPU). This is the counterpart of clipping/clipped_sum.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include "clipped_sum.hpp"

namespace tightdp::cuda {

// Computes tightdp::clipped_sum. All pointers of the request point to device memory, except request.stream, the random
// stream. The function returns when the work is queued on the CUDA `stream`, without waiting for the result. Apart from
// the data, the result depends only on the shape of the request and on the device's number of multiprocessors. Throws
// Error.
void clipped_sum(const ClipRequest& request, cudaStream_t stream);

// Computes the exact form of tightdp::clipped_sum, for request.grid > 0. The sums, and the result with noise, have the
// same bits as on the CPU.
void exact_sum(const ClipRequest& request, cudaStream_t stream);

// Adds the noise of a request to the integers `sums`, multiplies the results by request.grid, and writes them. The grid
// need not be a power of two. The request has no rows. `sums` has an integer for each column, in device memory. The
// result has the same bits as a release by tightdp::SumRelease (dense_layers/product_sum.hpp).
void release_sums(const ClipRequest& request, const std::int64_t* sums, cudaStream_t stream);

}  // namespace tightdp::cuda
