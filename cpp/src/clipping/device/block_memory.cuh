// Shared memory, loop unrolling and asynchronous copies for kernels. For tests, testing/device_emulation.hpp defines
// the same names on the host.
#pragma once

#if defined(__CUDACC__)

#include <cuda_pipeline.h>

#define TIGHTDP_SHARED_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]
#define TIGHTDP_UNROLL _Pragma("unroll")
#define TIGHTDP_UNROLL_4 _Pragma("unroll 4")

namespace tightdp::cuda {

// Starts to copy `bytes` bytes, where `bytes` is 4, 8 or 16. Both addresses are multiples of `bytes`. The copy belongs
// to the thread's current batch, and is complete after wait_batches has returned for this batch.
template <int bytes>
__device__ inline void copy_async(void* shared, const void* global) {
    __pipeline_memcpy_async(shared, global, bytes);
}
// Closes the current batch. It holds all copies that this thread has started since it closed a batch last.
__device__ inline void close_batch() { __pipeline_commit(); }
// Waits until all closed batches of this thread are complete, except for the `open` batches that were closed last.
template <int open>
__device__ inline void wait_batches() {
    __pipeline_wait_prior(open);
}

}  // namespace tightdp::cuda

#endif
