// Computes the eight normals of one lane of a tile (tile.hpp), which is the work of one thread of a device (GPU). The
// results have the same bits as those of random/normal.exact.simd.cpp.
#pragma once

#include "normal.hpp"
#include "tile.hpp"

namespace tightdp::random {

// Computes `pairs[k]` for k < 4. The normals in it have the indices i and i + 16, where i = 128 tile + 32 k + lane.
// Compile without contraction of a * b + c to fused multiply-adds (normal.hpp).
template <class Real>
TIGHTDP_HD inline void lane_normals(const RandomStream& s, std::uint64_t tile, int lane,
                                    NormalPair<Real> (&pairs)[4]) noexcept {
    std::uint32_t state[kChaChaWords];
    if (s.generator == Generator::chacha20)
        chacha20_words(s, tile * kLanes + static_cast<std::uint64_t>(lane), state);
    for (int k = 0; k < 4; ++k) {
        std::uint32_t words[4];
        if (s.generator == Generator::chacha20)
            for (int i = 0; i < 4; ++i) words[i] = state[4 * k + i];
        else
            random_lane_words(s, tile, lane, k, words);
        pairs[k] = normal_pair<Real>(words[0], words[1], words[2], words[3]);
    }
}

}  // namespace tightdp::random
