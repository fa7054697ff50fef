// Runs the kernels of clipping/device (one_read.cuh, exact_kernels.cuh) and the stages of contour/batch on the host,
// for each block and each thread.
#pragma once

#include <cstdint>
#include <string>

#include "clipping/clipped_sum.hpp"
#include "contour/batch/memory.hpp"
#include "contour/result.hpp"

namespace tightdp {

// A device as small as a test needs. The members are the number of multiprocessors, the bytes of shared memory of each,
// and the number of blocks that a multiprocessor takes at once.
struct SmallDevice {
    std::int64_t processors, shared, resident;
    int slice_threads;
};

// Computes tightdp::clipped_sum in the way that a device of this size would choose. Returns this way and its shape.
// Throws std::logic_error if threads write beyond shared memory or wait for ever. Throws std::invalid_argument if the
// device would choose the third way, which emulate_clipped_sum runs.
std::string emulate_clip_kernels(const ClipRequest& request, const SmallDevice& device);

// Computes the exact form of tightdp::clipped_sum in groups of `group` rows. `blocks` blocks or more run at a time.
void emulate_exact_kernels(const ClipRequest& request, std::int64_t blocks, std::int64_t group);

// Computes contour::batch_epsilon for both directions with the lanes of one warp.
contour::Result emulate_batch_epsilon(contour::BatchMemory& memory, double sigma, double q, double steps, double delta,
                                      double tolerance);

}  // namespace tightdp
