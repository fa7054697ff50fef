// Clip every example, add them up, add noise: one call, one read of the data from memory where a few examples
// fit the second-level cache.
//
// The result does not depend on the number of threads or on the instruction set: columns are summed in a
// fixed order of rows, norms in a fixed order of columns (docs/theory/clipping.md, section 3).
#pragma once

#include <cstddef>
#include <vector>

#include "clip_kernels.hpp"
#include "tightdp/clipping/factor.hpp"
#include "tightdp/random/tile.hpp"

namespace tightdp {

// Some columns of every row: one parameter's per-example gradients. Columns are contiguous; rows are `stride`
// bytes apart. `out` takes the columns' sums.
struct ClipSegment {
    const void* data;
    std::ptrdiff_t stride;
    std::size_t columns;
    void* out;
};

struct ClipRequest {
    std::vector<ClipSegment> segments;
    std::size_t rows = 0;
    Dtype dtype = Dtype::float32;
    bool out_double = false;  // out is float64, else float32
    bool accumulate = false;  // adds to what out holds

    double max_norm = 1;  // > 0
    clipping::Rule rule = clipping::Rule::flat;
    double stability = 0;                   // > 0 under Rule::normalize
    const double* weights = nullptr;        // one a row, finite and >= 0; null: all 1
    const double* center = nullptr;         // one a column over all segments, finite; null with inverse_scale
    const double* inverse_scale = nullptr;  // finite and > 0

    double deviation = 0;                          // of the normal noise added to each column
    const random::RandomStream* stream = nullptr;  // index = column; null: no noise

    double* norms =
        nullptr;  // one a row: norms before clipping, +inf for examples that are not finite; may be null
};

// Throws std::bad_alloc before anything is written.
void clipped_sum(const ClipRequest& request);

}  // namespace tightdp
