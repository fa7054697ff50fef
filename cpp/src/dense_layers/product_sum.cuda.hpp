// Adds clipped outer products, and products of given integers, on a device (GPU). This is the counterpart of
// product_sum.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include "product_sum.hpp"

namespace tightdp::cuda {

// Computes the same integers as tightdp::add_integer_product. All pointers point to device memory. Weights beyond
// kLargestWeight and inputs beyond kLargestEntry are confined to these limits. The function returns when the work is
// queued on `stream`, without waiting for the result. Throws Error.
void add_integer_product(const IntegerProduct& p, cudaStream_t stream);

// Computes the same totals as tightdp::add_products does if `release` is null. All pointers of the request and its
// layers point to device memory. The members `rounding_factors` and `squares` of the layers are not read, but computed
// here. The function returns when the work is queued on `stream`, without waiting for the result. Throws Error.
template <class T>
void add_products(const ProductSum& request, cudaStream_t stream);

}  // namespace tightdp::cuda
