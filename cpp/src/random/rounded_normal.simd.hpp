// The loop of rounded normals, one copy an instruction set.
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Adds to values, modulo 2^64, the integers of groups of 32 draws (4 a tile), whose 64 words are the tiles'.
// Of a group with a draw in doubt nothing is added and doubt[group] is not 0. sigma: one, or with `each` one
// a value.
TIGHTDP_DECLARE_SIMD(void, rounded_groups,
                     (const std::uint32_t* words, std::int64_t groups, const double* sigma, bool each,
                      std::int64_t* values, unsigned char* doubt))

}  // namespace tightdp
