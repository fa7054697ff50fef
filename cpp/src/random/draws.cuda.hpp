// Random words on a device: what the known answers are compared with.
#pragma once

#include <cuda_runtime_api.h>

#include "tightdp/random/tile.hpp"

namespace tightdp::cuda {

// Words [256 tile, 256 (tile + tiles)) of a stream into device memory. Throws Error.
void fill_words(const random::RandomStream& s, std::uint64_t tile, long tiles, std::uint32_t* out, cudaStream_t stream);

}  // namespace tightdp::cuda
