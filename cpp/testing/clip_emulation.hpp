// The device's clipped sum (clipping/device/clip.hpp) run by the host, so that its formulas are tested
// where there is no device.
#pragma once

#include "clipping/clipped_sum.hpp"

namespace tightdp {

void emulate_clipped_sum(const ClipRequest& request);

}  // namespace tightdp
