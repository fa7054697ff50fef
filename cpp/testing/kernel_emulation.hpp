// The kernels of clipping/device (one_read.cuh, exact_kernels.cuh) and the stages of contour/batch run by the host,
// block by block, thread by thread.
#pragma once

#include <cstdint>
#include <string>

#include "clipping/clipped_sum.hpp"
#include "contour/batch/memory.hpp"
#include "contour/result.hpp"

namespace tightdp {

// A device as small as a test needs: multiprocessors, bytes of shared memory of each, blocks that one takes at once.
struct SmallDevice {
    std::int64_t processors, shared, resident;
    int slice_threads;
};

// Computes tightdp::clipped_sum in the way that a device of this size would choose; returns that way and its shape.
// Throws std::logic_error where threads race past shared memory or wait for ever; std::invalid_argument where the
// plain way (emulate_clipped_sum) would be taken.
std::string emulate_clip_kernels(const ClipRequest& request, const SmallDevice& device);

// Computes the exact form of tightdp::clipped_sum, in groups of `group` rows, by `blocks` blocks at a time or more.
void emulate_exact_kernels(const ClipRequest& request, std::int64_t blocks, std::int64_t group);

// contour::batch_epsilon of both directions, by the lanes of one warp.
contour::Result emulate_batch_epsilon(contour::BatchMemory& memory, double sigma, double q, double steps, double delta,
                                      double tolerance);

}  // namespace tightdp
