// Converts float16 and bfloat16, which are held as bits, to the float32 of the same value.
#pragma once

#include <stdint.h>
#include <string.h>

#include "../config.hpp"

namespace tightdp::clipping {

struct Float16 {
    uint16_t bits;
};

struct BFloat16 {
    uint16_t bits;
};

TIGHTDP_FORMULA float narrow_float_from_bits(uint32_t bits) noexcept {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TIGHTDP_FORMULA float to_float(float x) noexcept {
    return x;
}

TIGHTDP_FORMULA float to_float(BFloat16 x) noexcept {
    return narrow_float_from_bits(uint32_t{x.bits} << 16);
}

// Converts exactly, including subnormals, infinities and NaNs. The function has no branches, so that it vectorises.
TIGHTDP_FORMULA float to_float(Float16 x) noexcept {
    const uint32_t magnitude = (uint32_t{x.bits} & 0x7fffu) << 13;
    const uint32_t sign = (uint32_t{x.bits} & 0x8000u) << 16;
    // The exponent moves from float16's bias 15 to float32's bias 127. For infinities and NaNs, 127 - 15 is added
    // twice. A subnormal keeps its mantissa and gets the exponent of 2^-14. Then 2^-14 is subtracted. This avoids
    // subnormals of float32, which are slow.
    const uint32_t rebias = magnitude >= 0x0f800000u ? 0x70000000u : 0x38000000u;
    const float subnormal = narrow_float_from_bits(magnitude + 0x38800000u) - 0x1p-14f;
    const float normal = narrow_float_from_bits(magnitude + rebias);
    const float value = magnitude < 0x00800000u ? subnormal : normal;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return narrow_float_from_bits(bits | sign);
}

}  // namespace tightdp::clipping
