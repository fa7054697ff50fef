// Random numbers by index, on as many threads as pay. Which value has which index: tightdp/random/tile.hpp.
//
// Every function gives the values of indices [first, first + n), the same whatever the number of threads, the
// instruction set, or the split of a range over calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// A stream with a key drawn from the operating system now: of AES-256 where this processor has instructions for it,
// else of ChaCha20. So is a stream for a device, which has none either.
random::RandomStream secure_stream(bool on_device);

random::RandomStream philox_stream(std::uint64_t seed, std::uint64_t stream) noexcept;

// 64-bit integers.
void fill_integers(const random::RandomStream& stream, std::uint64_t first, std::size_t n, std::uint64_t* out);

// Uniform on the odd multiples of 2^-53 in (0, 1): symmetric, never 0 or 1.
void fill_uniform(const random::RandomStream& stream, std::uint64_t first, std::size_t n, double* out);

// Standard normals: tightdp/random/normal.hpp.
void fill_normal(const random::RandomStream& stream, std::uint64_t first, std::size_t n, float* out);
void fill_normal(const random::RandomStream& stream, std::uint64_t first, std::size_t n, double* out);

// The same on the calling thread alone, for kernels that are parallel already.
void normal_range(const random::RandomStream& stream, std::uint64_t first, std::size_t n, float* out) noexcept;
void normal_range(const random::RandomStream& stream, std::uint64_t first, std::size_t n, double* out) noexcept;

}  // namespace tightdp
