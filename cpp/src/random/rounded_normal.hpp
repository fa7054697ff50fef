// Rounded normals by index, added to integers. Which draw has which index: tightdp/random/tile.hpp.
//
// Draw i of a stream is floor(sigma Z_i + 1/2), Z_i a standard normal on the real numbers that is a function of (key,
// stream, i) alone: the same integers whatever the number of threads, the instruction set, or the split of a range over
// calls. docs/theory/noise.md, section 5.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// The standard deviations of the normals: one for all of them, or one for each; all in [0, 2^39].
struct Deviations {
    const double* sigma;
    bool each;

    double operator[](std::size_t i) const noexcept { return sigma[each ? i : 0]; }
    Deviations from(std::size_t i) const noexcept { return {sigma + (each ? i : 0), each}; }
};

// Draws of index [first, first + n), first + n <= 2^48, on the calling thread alone; values[i] += draw first + i modulo
// 2^64.
void add_rounded_normals_range(const random::RandomStream& stream, Deviations sigma, std::uint64_t first, std::size_t n,
                               std::int64_t* values) noexcept;

// The same on as many threads as pay.
void add_rounded_normals(const random::RandomStream& stream, Deviations sigma, std::uint64_t first, std::size_t n,
                         std::int64_t* values);

}  // namespace tightdp
