// Device memory for the work that is queued on a stream. The memory is freed when this work is done, without a wait of
// the host.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "cuda_check.hpp"

namespace tightdp::cuda {

// Returns the library's own memory pool of the current device. Freed memory stays in this pool. By default, a pool
// returns its freed memory to the driver each time that the host waits, and the next call has to map memory again. The
// device's default pool is not used, since users may have changed its settings.
inline cudaMemPool_t find_cuda_pool() {
    static std::mutex mutex;
    static std::map<int, cudaMemPool_t> pools;
    // The pool keeps this many bytes of freed memory, which suffice for the sums of a call. Further memory is returned
    // to the driver when the host waits.
    constexpr std::uint64_t kept = 256u << 20;
    int device = 0;
    check_cuda(cudaGetDevice(&device), "the current device");
    const std::lock_guard lock(mutex);
    cudaMemPool_t& pool = pools[device];
    if (!pool) {
        cudaMemPoolProps props{};
        props.allocType = cudaMemAllocationTypePinned;
        props.location.type = cudaMemLocationTypeDevice;
        props.location.id = device;
        check_cuda(cudaMemPoolCreate(&pool, &props), "a pool of memory");
        std::uint64_t threshold = kept;
        check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "a pool of memory");
    }
    return pool;
}

class Scratch {
  public:
    Scratch(std::size_t bytes, cudaStream_t stream) : stream_(stream) {
        if (bytes > 0)
            check_cuda(cudaMallocFromPoolAsync(&data_, bytes, find_cuda_pool(), stream), "memory on the device");
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    // Queues the freeing of the memory on the stream. Kernels that were launched before can still use the memory.
    ~Scratch() {
        if (data_) cudaFreeAsync(data_, stream_);
    }
    template <class T>
    T* as() const noexcept {
        return static_cast<T*>(data_);
    }

  private:
    void* data_ = nullptr;
    cudaStream_t stream_;
};

}  // namespace tightdp::cuda
