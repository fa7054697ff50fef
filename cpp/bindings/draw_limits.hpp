// Limits of the arguments of rounded normals. The bindings check these limits for callers from Python.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tightdp::bindings {

inline constexpr double kLargestSigma = 0x1p39;

// Returns whether all of the `count` draws from draw `first` on exist. A stream has 2^48 draws.
inline bool has_draws(std::uint64_t first, std::size_t count) noexcept {
    constexpr std::uint64_t kDraws = std::uint64_t{1} << 48;
    return first <= kDraws && count <= kDraws - first;
}

}  // namespace tightdp::bindings
