// Clip every example, add them up, add noise: one call, one read of the data from memory where a few examples
// fit the second-level cache. In doubles, or exactly: then what is added are integers
// (docs/theory/clipping.md, section 7).
//
// The result does not depend on the number of threads or on the instruction set: norms are summed in a fixed
// order of columns, columns in a fixed order of rows or in integers, whose order does not matter
// (docs/theory/clipping.md, section 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tightdp/clipping/factor.hpp"
#include "tightdp/random/tile.hpp"
#include "tile.hpp"

namespace tightdp {

// Some columns of every row: one parameter's per-example gradients. Columns are contiguous; rows are `stride`
// bytes apart. `out` takes the columns' sums.
struct ClipSegment {
    const void* data;
    std::ptrdiff_t stride;
    std::size_t columns;
    void* out;
    std::uint64_t noise_index = 0;  // of the first column's noise in the stream
};

struct ClipRequest {
    std::vector<ClipSegment> segments;
    std::size_t rows = 0;
    Dtype dtype = Dtype::float32;
    bool out_double = false;    // out is float64, else float32
    bool out_integers = false;  // out is int64, in steps of the grid: exact form alone
    bool accumulate = false;    // adds to what out holds: integers, in the exact form

    double max_norm = 1;  // > 0
    clipping::Rule rule = clipping::Rule::flat;
    double stability = 0;                   // >= 1e-100 under Rule::normalize
    const double* weights = nullptr;        // one a row, finite and >= 0; null: all 1
    const double* center = nullptr;         // one a column over all segments, finite; null with inverse_scale
    const double* inverse_scale = nullptr;  // finite and > 0

    // Step of the exact form, a power of two, if above 0: sums are multiples of it; weight * max_norm / grid < 2^62.
    double grid = 0;

    double deviation = 0;  // of the normal noise added to each column; exact: in grid steps, at most 2^39
    const random::RandomStream* stream = nullptr;  // null: no noise

    double* norms =
        nullptr;  // one a row: norms before clipping, +inf for examples that are not finite; may be null
};

// Throws std::bad_alloc before anything is written, and Interrupted where the calling thread is asked to stop: then
// the outputs' contents are unspecified, but no sum of a release is there without its noise.
void clipped_sum(const ClipRequest& request);

}  // namespace tightdp
