// Runs a device's code on the host, for each block and each thread: the kernels of clipping/device (held_rows.cuh,
// rows_read_twice.cuh, exact_clip_kernels.cuh) and of dense_layers/device, and the stages of contour/batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clipping/clipped_sum.hpp"
#include "contour/batch/batch_memory.hpp"
#include "contour/result.hpp"
#include "dense_layers/device/digit_tiles.hpp"
#include "dense_layers/product_sum.hpp"

namespace tightdp {

// A small device: the number of multiprocessors, the bytes of shared memory of each, and the number of thread blocks
// that a multiprocessor takes at once.
struct SmallDevice {
    std::int64_t processors, shared, resident;
};

// Computes tightdp::clipped_sum with the kernels and the launch shape that are chosen for a device of this size.
// Returns a text that names the kernels and the shape. Throws std::logic_error if threads write beyond shared memory or
// wait for ever.
std::string emulate_clip_kernels(const ClipRequest& request, const SmallDevice& device);

// Computes the exact form of tightdp::clipped_sum (exact_clip_kernels.cuh). `blocks` is the number of thread blocks
// that keep the device busy.
void emulate_exact_kernels(const ClipRequest& request, std::int64_t blocks);

// Computes tightdp::cuda::release_sums.
void emulate_release(const ClipRequest& request, const std::int64_t* sums);

// Computes tightdp::add_integer_product as a device with `processors` multiprocessors would, in chunks of records whose
// packed operands take at most `packed_bytes` if possible. A stage is the part of the packed operands that a thread
// block multiplies at a time. Shared memory has room for three stages if `three` is true, and for two otherwise.
// Returns, for each chunk, how its work is shared among thread blocks. Throws std::logic_error if a sum of 32 bits
// overflows.
std::vector<cuda::ProductShares> emulate_integer_product(const IntegerProduct& product, std::int64_t processors,
                                                         std::int64_t packed_bytes, bool three);

// Computes the totals of tightdp::add_products in chunks of `chunk` records. Adds no noise, and writes no results of a
// release. The layers' inputs and errors are float64 if `full` is true, and float32 otherwise.
void emulate_product_sum(const ProductSum& request, bool full, std::int64_t processors, std::int64_t chunk);

// Computes contour::batch_epsilon for both directions with the lanes of one warp.
contour::Result emulate_batch_epsilon(contour::BatchMemory& memory, double sigma, double q, double steps, double delta,
                                      double tolerance);

}  // namespace tightdp
