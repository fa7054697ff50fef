// The loops of random numbers, one copy an instruction set. Layout of a tile: tightdp/random/tile.hpp.
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"
#include "tightdp/random/tile.hpp"

namespace tightdp {

// The words of `count` tiles from tile `first`. The same integers from every variant.
TIGHTDP_DECLARE_SIMD(void, random_tiles,
                     (const random::RandomStream& stream, std::uint64_t first, std::int64_t count, std::uint32_t* out))

// The same of AES-256 alone, with the processor's instructions for it (which it must have), or with none.
TIGHTDP_DECLARE_SIMD(void, aes256_tiles,
                     (const random::RandomStream& stream, AesUnit unit, std::uint64_t first, std::int64_t count,
                      std::uint32_t* out))

// 256 words a tile become 128 normals a tile. The same bits from every variant.
TIGHTDP_DECLARE_SIMD(void, normal_tiles_f32, (const std::uint32_t* words, std::int64_t count, float* out))
TIGHTDP_DECLARE_SIMD(void, normal_tiles_f64, (const std::uint32_t* words, std::int64_t count, double* out))

}  // namespace tightdp
