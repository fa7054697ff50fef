// Adds exactly sampled discrete noise to arrays. Each chunk of 256 draws has its own part of the stream, so that the
// values do not depend on the number of threads. Sampling takes a random time, because the sampler repeats a draw until
// the draw is accepted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// Adds discrete Gaussian noise with sigma = numerator / denominator to each out[i], i < n. Preconditions: sigma is in
// [2^-10, 2^40], numerator < 2^53, and denominator <= 2^63.
void add_discrete_gaussian(const random::RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator,
                           std::size_t n, std::int64_t* out);

// Adds discrete Laplace noise with the scale numerator / denominator to each out[i], i < n. The preconditions of
// add_discrete_gaussian apply, with the scale in place of sigma.
void add_discrete_laplace(const random::RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator,
                          std::size_t n, std::int64_t* out);

}  // namespace tightdp
