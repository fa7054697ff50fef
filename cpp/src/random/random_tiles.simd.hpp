// The loops that compute random numbers, compiled once for each instruction set. All copies return the same bits. The
// layout of a tile is described in tightdp/random/tile.hpp.
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"
#include "tightdp/random/tile.hpp"

namespace tightdp {

// Computes the words of `count` tiles, starting with tile `first`.
TIGHTDP_DECLARE_SIMD(void, random_tiles,
                     (const random::RandomStream& stream, std::uint64_t first, std::int64_t count, std::uint32_t* out))

// Computes the words of `count` tiles of a stream of AES-256. `unit` says which AES instructions are used, if any. The
// processor must have these instructions.
TIGHTDP_DECLARE_SIMD(void, random_aes256_tiles,
                     (const random::RandomStream& stream, AesUnit unit, std::uint64_t first, std::int64_t count,
                      std::uint32_t* out))

// Turn the 256 words of each of `count` tiles into 128 standard normals.
TIGHTDP_DECLARE_SIMD(void, normal_tiles_f32, (const std::uint32_t* words, std::int64_t count, float* out))
TIGHTDP_DECLARE_SIMD(void, normal_tiles_f64, (const std::uint32_t* words, std::int64_t count, double* out))

}  // namespace tightdp
