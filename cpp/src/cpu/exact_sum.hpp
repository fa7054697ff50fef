// The clipped sum in integers: every example's clipped row is rounded toward zero to multiples of a grid, and
// the multiples are added exactly. docs/theory/noise.md, section 6.
#pragma once

#include <cstdint>
#include <vector>

#include "clipped_sum.hpp"

namespace tightdp {

// `request.norms` must hold the norms that clipped_sum reported for the same data; `request.segments[i].out`
// is unused. outs[i][j] = sum over rows of trunc(F g_j / grid), 1/grid = inverse_grid a power of two.
// Precondition: rows * max_norm * inverse_grid < 2^62.
void exact_sum(const ClipRequest& request, double inverse_grid, const std::vector<std::int64_t*>& outs);

}  // namespace tightdp
