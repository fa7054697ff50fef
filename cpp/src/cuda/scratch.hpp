// Device memory that lives as long as the work queued on a stream, without a wait by the host.
#pragma once

#include "check.hpp"

namespace tightdp::cuda {

class Scratch {
  public:
    Scratch(std::size_t bytes, cudaStream_t stream) : stream_(stream) {
        if (bytes > 0) check(cudaMallocAsync(&data_, bytes, stream), "memory on the device");
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    // Freed in the order of the stream: kernels launched before are not disturbed.
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
