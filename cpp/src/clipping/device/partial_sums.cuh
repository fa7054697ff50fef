// Adds up sums over parts of the rows, which earlier kernels have computed.
#pragma once

#include <cstdint>

#include "block_memory.cuh"
#include "runtime/warp_team.cuh"

namespace tightdp::cuda {

// Computes sums[column] = partial[0][column] + ... + partial[parts - 1][column]. Each thread block takes 32
// columns. If a block has w warps, each warp adds every w-th term, and the sums of the warps are added in order. The
// kernel needs 8 bytes of shared memory for each thread, and a block has to consist of whole warps.
static __global__ void __launch_bounds__(1024)
    add_partial_kernel(const double* partial, std::int64_t parts, std::int64_t columns, double* sums) {
    TIGHTDP_SHARED_MEMORY(shared);
    double* const by_thread = reinterpret_cast<double*>(shared);
    const std::int64_t warps = blockDim.x / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t c = blockIdx.x * std::int64_t{32} + lane;
    double sum = 0;
    if (c < columns) {
        TIGHTDP_UNROLL_4
        for (std::int64_t i = warp; i < parts; i += warps) sum += partial[i * columns + c];
    }
    by_thread[threadIdx.x] = sum;
    __syncthreads();
    if (warp > 0 || c >= columns) return;
    for (std::int64_t w = 1; w < warps; ++w) sum += by_thread[w * 32 + lane];
    sums[c] = sum;
}

}  // namespace tightdp::cuda
