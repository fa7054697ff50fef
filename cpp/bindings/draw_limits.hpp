// Limits of the functions that draw rounded normals, which are normal draws rounded to integers. The bindings check
// these limits for callers from Python.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tightdp::bindings {

// Largest standard deviation of a rounded normal.
inline constexpr double kLargestSigma = 0x1p39;

// Returns whether a stream has the `count` draws with the indices first, first + 1, ... A stream has 2^48 draws, whose
// indices begin at 0.
inline bool is_within_draw_limits(std::uint64_t first, std::size_t count) noexcept {
    constexpr std::uint64_t kDraws = std::uint64_t{1} << 48;
    return first <= kDraws && count <= kDraws - first;
}

}  // namespace tightdp::bindings
