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

// Computes the same integers as tightdp::add_products without a release. All pointers of the request and its layers
// point to device memory. Steps and squares of layers are computed here, and those of the request are not read. The
// function returns when the work is queued on `stream`, without waiting for the result. Throws Error.
template <class T>
void add_products(const ProductSum& request, cudaStream_t stream);

}  // namespace tightdp::cuda
