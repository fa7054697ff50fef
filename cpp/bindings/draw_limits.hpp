// Limits of rounded normals that are checked for callers from Python.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tightdp::bindings {

inline constexpr double kLargestSigma = 0x1p39;

// Returns whether a stream, which has 2^48 draws, has the `count` draws from draw `first` on.
inline bool has_draws(std::uint64_t first, std::size_t count) noexcept {
    constexpr std::uint64_t kDraws = std::uint64_t{1} << 48;
    return first <= kDraws && count <= kDraws - first;
}

}  // namespace tightdp::bindings
