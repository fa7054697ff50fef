// The loop that adds rounded normals, compiled once for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Adds rounded normals to `values`, modulo 2^64, in groups of 32 draws. A group uses 64 of the random `words`, and a
// tile (tightdp/random/tile.hpp) has four groups. A draw is in doubt if its first digits do not decide how it rounds
// (tightdp/random/rounding.hpp). If a group has such a draw, nothing is added for the group, and doubt[group] is not 0.
// `sigma` points to one standard deviation for all values, or to one for each value if `each` is true.
TIGHTDP_DECLARE_SIMD(void, add_rounded_normal_groups,
                     (const std::uint32_t* words, std::int64_t groups, const double* sigma, bool each,
                      std::int64_t* values, unsigned char* doubt))

}  // namespace tightdp
