// A team (team.hpp) of lanes (threads) of a warp. A WarpTeam has all 32 lanes. Some kernels that square rows use teams
// of 8 or 16 lanes, and a warp then has several teams.
#pragma once

#include <cstdint>

namespace tightdp::cuda {

template <int lanes>
struct LaneTeam {
    static constexpr unsigned kAll = 0xffffffffu;

    __device__ int lane() const noexcept { return static_cast<int>(threadIdx.x) & (lanes - 1); }
    __device__ int size() const noexcept { return lanes; }
    __device__ void sync() const noexcept { __syncwarp(); }

    // The collective functions exchange numbers in a butterfly. In each round, two lanes combine the same two numbers,
    // so that all lanes end with the same bits. All lanes of the warp have to take part.
    __device__ double sum(double x) const noexcept {
        for (int d = lanes / 2; d > 0; d /= 2) x += __shfl_xor_sync(kAll, x, d);
        return x;
    }
    __device__ double largest(double x) const noexcept {
        for (int d = lanes / 2; d > 0; d /= 2) {
            const double y = __shfl_xor_sync(kAll, x, d);
            x = x < y ? y : x;
        }
        return x;
    }
    __device__ double smallest(double x) const noexcept {
        for (int d = lanes / 2; d > 0; d /= 2) {
            const double y = __shfl_xor_sync(kAll, x, d);
            x = y < x ? y : x;
        }
        return x;
    }
    // Returns a number whose bit l is the vote of lane l of the warp, also if the team has fewer than 32 lanes.
    __device__ std::uint32_t votes(bool yes) const noexcept {
        static_assert(lanes == 32 || lanes == 8);
        return __ballot_sync(kAll, yes);
    }
};

using WarpTeam = LaneTeam<32>;

}  // namespace tightdp::cuda
