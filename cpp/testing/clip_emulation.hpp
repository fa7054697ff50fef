// Runs the clipped sum of a device (clipping/device/clip_formulas.hpp) on the host, so that the formulas are tested on
// machines without a device.
#pragma once

#include "clipping/clipped_sum.hpp"

namespace tightdp {

void emulate_clipped_sum(const ClipRequest& request);

}  // namespace tightdp
