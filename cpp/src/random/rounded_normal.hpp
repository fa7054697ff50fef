// Adds rounded normals to integers. A rounded normal is a normal draw rounded to an integer. The draws of a stream are
// numbered (tightdp/random/tile.hpp).
//
// Draw i of a stream is floor(sigma Z_i + 1/2). Here Z_i is a standard normal variable, a real number and not a double.
// Z_i is a function of (key, stream, i) alone. Draws do not depend on the number of threads, the instruction set, or
// the split of a range over calls (docs/theory/noise.md, section 5).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tightdp/random/tile.hpp"

namespace tightdp {

// The standard deviations of the normals. All are in [0, 2^39].
struct Deviations {
    const double* sigma;
    bool each;  // true if `sigma` has one number for each normal, false if `sigma` has one number for all normals

    double operator[](std::size_t i) const noexcept { return sigma[each ? i : 0]; }
    Deviations rounded_normal_deviations_from(std::size_t i) const noexcept { return {sigma + (each ? i : 0), each}; }
};

// Adds draw first + i to values[i], modulo 2^64, for i < n. Runs on the calling thread alone. Precondition:
// first + n <= 2^48.
void add_rounded_normals_range(const random::RandomStream& stream, Deviations sigma, std::uint64_t first, std::size_t n,
                               std::int64_t* values) noexcept;

// Adds the same draws to `values` as add_rounded_normals_range does, on several threads if there are enough draws.
void add_rounded_normals(const random::RandomStream& stream, Deviations sigma, std::uint64_t first, std::size_t n,
                         std::int64_t* values);

}  // namespace tightdp
