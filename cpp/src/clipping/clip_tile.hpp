// The loops of clipping over one tile (a range of columns), compiled once for each instruction set. All copies return
// the same bits.
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"
#include "tightdp/clipping/narrow_float.hpp"

namespace tightdp {

enum class Dtype : int { float16, bfloat16, float32, float64 };
inline constexpr const char* kDtypeNames[] = {"float16", "bfloat16", "float32", "float64"};

// Calls f.template operator()<T>() for the type T that `dtype` names.
template <class F>
[[gnu::always_inline]] inline auto call_for_clip_tile_dtype(Dtype dtype, const F& f) {
    switch (dtype) {
        case Dtype::float16:
            return f.template operator()<clipping::Float16>();
        case Dtype::bfloat16:
            return f.template operator()<clipping::BFloat16>();
        case Dtype::float32:
            return f.template operator()<float>();
        default:
            return f.template operator()<double>();
    }
}

// Number of columns in a tile. The sums of a tile (8 KB) and the rows that are added to these sums stay in the
// first-level cache. With half as many columns, a tenth of the time would be spent on starting and ending sweeps (see
// below).
inline constexpr std::int64_t kTileColumns = 1024;
// Number of rows in a group. These rows are added in their own precision, and their sum is then added to the sum in
// double.
inline constexpr int kGroup = 4;
// A sweep is one pass over the columns of a tile for a few rows. kMostGroups is the largest number of groups of rows in
// a sweep. With more than eight rows at once, the processor would not prefetch all rows.
inline constexpr int kMostGroups = 2;
inline constexpr int kSweepRows = kMostGroups * kGroup;
// Bound on the integers of a row in the exact form (ClipKernels::add). With this bound, the sums of the integers of all
// rows of a sweep fit in 32 bits.
inline constexpr double kLaneLimit = 0x1p31 / kSweepRows;

// Pointers to the centre and to the inverse of the scale at the tile's first column. Both are null if rows are neither
// centred nor scaled.
struct Transform {
    const double* center;
    const double* inverse_scale;
};

// A range of columns of a few rows, which a kernel processes in one call. Missing rows are replaced by rows of zeros.
struct Sweep {
    int groups;      // number of groups of kGroup rows, at most kMostGroups
    std::int64_t n;  // number of columns, at most kTileColumns
    Transform transform;
    const void* const* rows;
};

// The loops over a sweep.
struct ClipKernels {
    // Computes squares[r] += sum_j x^2, where x is rows[r][j], or (rows[r][j] - center[j]) * inverse_scale[j] under a
    // transform.
    void (*square)(const Sweep& s, double* squares);
    // Computes sums[j] = (fresh ? 0 : sums[j]) + sum_r factors[r] * x in doubles, group after group, where x is the
    // same as in `square`. In the exact form, the terms are trunc(factors[r] * x), and the sums are 64-bit integers
    // modulo 2^64.
    void (*add)(const Sweep& s, const double* factors, void* sums, bool fresh);
};

// The loops that write the output. `single` and `full` compute out[j] = (add ? out[j] : 0) + sums[j] + deviation *
// noise[j], where `noise` may be null. The loops of integers compute out[j] = grid * integers[j], rounded.
struct FinishKernels {
    void (*single)(float* out, const double* sums, const float* noise, double deviation, std::int64_t n, bool add);
    void (*full)(double* out, const double* sums, const double* noise, double deviation, std::int64_t n, bool add);
    void (*single_of_integers)(float* out, const std::int64_t* integers, double grid, std::int64_t n);
    void (*full_of_integers)(double* out, const std::int64_t* integers, double grid, std::int64_t n);
};

TIGHTDP_DECLARE_SIMD(ClipKernels, clip_tile_kernels, (Dtype dtype, bool transformed, bool exact))
TIGHTDP_DECLARE_SIMD(FinishKernels, clip_finish_kernels, ())

}  // namespace tightdp
