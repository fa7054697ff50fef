// Streams of random numbers, and functions that compute numbers of a stream. Each number of a stream has an index
// (tightdp/random/tile.hpp). If there are many numbers, several threads compute them.
//
// A function that writes to `out` writes the numbers with the indices [first, first + n). The numbers do not depend on
// the number of threads, the instruction set, or the split of a range over calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// Returns a stream with a new key from the operating system. The generator is AES-256 if this processor has
// instructions for AES, and ChaCha20 otherwise. A stream for a device (GPU) is always ChaCha20, since devices have no
// such instructions.
random::RandomStream draw_secure_random_stream(bool on_device);

// Returns stream number `stream` of Philox with the key `seed`. Philox is not secure, so this stream must not be used
// for releases.
random::RandomStream philox_stream(std::uint64_t seed, std::uint64_t stream) noexcept;

// Writes random 64-bit integers.
void fill_random_integers(const random::RandomStream& stream, std::uint64_t first, std::size_t n, std::uint64_t* out);

// Writes numbers that are uniform on the odd multiples of 2^-53 in (0, 1). The distribution is symmetric about 1/2, and
// no number is 0 or 1.
void fill_uniform(const random::RandomStream& stream, std::uint64_t first, std::size_t n, double* out);

// Write standard normals (tightdp/random/normal.hpp).
void fill_normal(const random::RandomStream& stream, std::uint64_t first, std::size_t n, float* out);
void fill_normal(const random::RandomStream& stream, std::uint64_t first, std::size_t n, double* out);

// Write standard normals on the calling thread alone, for callers that use several threads already.
void write_normal_range(const random::RandomStream& stream, std::uint64_t first, std::size_t n, float* out) noexcept;
void write_normal_range(const random::RandomStream& stream, std::uint64_t first, std::size_t n, double* out) noexcept;

}  // namespace tightdp
