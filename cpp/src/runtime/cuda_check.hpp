// Turns errors of the CUDA runtime into C++ exceptions. The host checks after each call. Device code never throws.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tightdp::cuda {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void check_cuda(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // clears the error, so that the next call does not report it again
    throw Error(std::string(what) + ": " + cudaGetErrorString(status));
}

// Returns an attribute of the current device.
inline std::int64_t cuda_attribute(cudaDeviceAttr what) {
    int device = 0, value = 0;
    check_cuda(cudaGetDevice(&device), "the current device");
    check_cuda(cudaDeviceGetAttribute(&value, what, device), "an attribute of the device");
    return value;
}

}  // namespace tightdp::cuda
