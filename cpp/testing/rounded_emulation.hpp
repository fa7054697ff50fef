// The rare branch of rounded normals made common, for tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// Draws [0, n) of a stream by the code of a device's thread, of whose uniforms 6, 10, 14 or 64 digits are
// looked at first; fewer than 64 are followed by further words, so only 64 gives the draws of
// rounded_normal.hpp. Returns how many of them were in doubt.
std::size_t rounded_normals_from(const random::RandomStream& stream, double sigma, int first_bits, std::size_t n,
                                 std::int64_t* out);

// The integers of pair `pair` if its first words were these: at words that no stream reaches.
std::pair<std::int64_t, std::int64_t> rounded_pair_of_words(const random::RandomStream& stream, std::uint64_t pair,
                                                            const std::array<std::uint32_t, 4>& words, double sigma);

// The integer that words of 64 digits of x and of y settle; none if they do not.
std::optional<std::int64_t> settled_by(double sigma, bool sine, const std::vector<std::uint64_t>& x,
                                       const std::vector<std::uint64_t>& y);

}  // namespace tightdp
