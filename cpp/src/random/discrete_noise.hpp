// Arrays of discrete noise, sampled exactly. A chunk of 256 draws has a part of the stream to itself, so that the
// values do not depend on the number of threads. Sampling takes a random time, as every exact method of this kind does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// sigma = numerator / denominator in [2^-10, 2^40], numerator < 2^53, denominator <= 2^63. out[i] += n.
void add_discrete_gaussian(const random::RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator,
                           std::size_t n, std::int64_t* out);

// scale = numerator / denominator in [2^-10, 2^40], with the same limits.
void add_discrete_laplace(const random::RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator,
                          std::size_t n, std::int64_t* out);

}  // namespace tightdp
