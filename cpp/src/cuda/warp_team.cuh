// The 32 lanes of a warp as a team of the batched contour engine (tightdp/contour/batch_team.hpp).
#pragma once

#include <cstdint>

namespace tightdp::cuda {

struct WarpTeam {
    static constexpr unsigned kAll = 0xffffffffu;

    __device__ int lane() const noexcept { return static_cast<int>(threadIdx.x) & 31; }
    __device__ int size() const noexcept { return 32; }
    __device__ void sync() const noexcept { __syncwarp(); }

    // Butterflies: in each round two lanes combine the same pair of numbers, so all end with the same bits.
    __device__ double sum(double x) const noexcept {
        for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(kAll, x, d);
        return x;
    }
    __device__ double largest(double x) const noexcept {
        for (int d = 16; d > 0; d /= 2) {
            const double y = __shfl_xor_sync(kAll, x, d);
            x = x < y ? y : x;
        }
        return x;
    }
    __device__ double smallest(double x) const noexcept {
        for (int d = 16; d > 0; d /= 2) {
            const double y = __shfl_xor_sync(kAll, x, d);
            x = y < x ? y : x;
        }
        return x;
    }
    __device__ std::uint32_t votes(bool yes) const noexcept { return __ballot_sync(kAll, yes); }
};

}  // namespace tightdp::cuda
