// Clips every example, adds the examples up, and adds noise in one call. If a few examples fit in the second-level
// cache, the data are read from memory only once. The sums are computed in doubles. In the exact form, integers are
// added instead (docs/theory/clipping.md, section 7).
//
// The result does not depend on the number of threads or on the instruction set. The squares of a row are added in a
// fixed order of columns. The entries of a column are added in a fixed order of rows. In the exact form these entries
// are integers, and the order does not matter (docs/theory/clipping.md, section 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clip_tile.hpp"
#include "tightdp/clipping/factor.hpp"
#include "tightdp/random/tile.hpp"

namespace tightdp {

// A range of columns of every row, such as the per-example gradients of one parameter. Columns are contiguous, and rows
// are `stride` bytes apart. The sums of the columns are written to `out`.
struct ClipSegment {
    const void* data;
    std::ptrdiff_t stride;
    std::size_t columns;
    void* out;
    std::uint64_t noise_index = 0;  // index, in the random stream, of the first column's noise
};

// The arguments of clipped_sum.
struct ClipRequest {
    std::vector<ClipSegment> segments;
    std::size_t rows = 0;
    Dtype dtype = Dtype::float32;
    bool out_double = false;    // true if `out` is float64, false if it is float32
    bool out_integers = false;  // true if `out` is int64, in steps of the grid. In the exact form only
    bool accumulate = false;    // true if sums are added to `out`. In the exact form this needs out_integers

    double max_norm = 1;  // the clipping norm, > 0
    clipping::Rule rule = clipping::Rule::flat;
    double stability = 0;                   // added to norms under Rule::normalize, >= 1e-100
    const double* weights = nullptr;        // for each row, a finite number >= 0. Null if all are 1
    const double* center = nullptr;         // for each column of all segments, a finite number. Null if not centred
    const double* inverse_scale = nullptr;  // for each column of all segments, finite and > 0. Null without `center`

    // Step of the exact form, a power of two, or 0 for sums in doubles. In the exact form the sums are multiples of the
    // grid, and weight * max_norm / grid has to be below 2^62.
    double grid = 0;

    // Standard deviation of the normal noise that is added to each column. In the exact form, the deviation is in steps
    // of the grid and at most 2^39.
    double deviation = 0;
    const random::RandomStream* stream = nullptr;  // source of the noise. Null for no noise

    // Output: the norm of each row before clipping, which is +inf for examples that are not finite. Null if not wanted.
    double* norms = nullptr;
};

// Computes the clipped sum of a request. If memory is short, throws std::bad_alloc before anything is written. Throws
// Interrupted if the calling thread is asked to stop. After Interrupted the contents of the outputs are unspecified,
// but no sum of a release is written without its noise.
void clipped_sum(const ClipRequest& request);

}  // namespace tightdp
