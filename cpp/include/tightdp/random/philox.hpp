// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
// section 3.3).
//
// Philox is fast and reproducible, but not cryptographic: somebody who sees enough outputs can find the key. Philox
// must not be used for releases.
#pragma once

#include <cstdint>

#include "../config.hpp"

namespace tightdp::random {

inline constexpr int kPhiloxWords = 4;

// Replaces the four words of `counter` by the four words of the output block.
TIGHTDP_FORMULA void philox4x32_10(std::uint32_t (&counter)[kPhiloxWords], std::uint32_t key0,
                                   std::uint32_t key1) noexcept {
    // The multipliers are from table 2 of the paper, and the Weyl constants from its section 3.3. The Weyl constants
    // are 2^32 times the fractional parts of the golden ratio and of sqrt(3).
    constexpr std::uint64_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
    constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = kMultiplier0 * counter[0];
        const std::uint64_t p1 = kMultiplier1 * counter[2];
        const std::uint32_t c0 = static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key0;
        const std::uint32_t c2 = static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key1;
        counter[0] = c0;
        counter[1] = static_cast<std::uint32_t>(p1);
        counter[2] = c2;
        counter[3] = static_cast<std::uint32_t>(p0);
        key0 += kWeyl0;
        key1 += kWeyl1;
    }
}

}  // namespace tightdp::random
