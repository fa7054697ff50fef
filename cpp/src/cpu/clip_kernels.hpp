// The loops of clipping over one tile of columns, one copy an instruction set. All variants return the same
// bits.
#pragma once

#include "dispatch.hpp"

namespace tightdp {

enum class Dtype : int { float16, bfloat16, float32, float64 };

// Columns in a tile: its sums (4 KB) and the rows' pieces being added stay in the first-level cache.
inline constexpr long kTileColumns = 512;
// Rows that are added in the row's own precision before the sum in double takes them.
inline constexpr int kGroup = 4;
// Groups that are added in one sweep: more rows at once than eight are more streams than a core follows.
inline constexpr int kMostGroups = 2;

// A centre and the inverse of a scale, at the tile's first column; null where rows are taken as they are.
struct Transform {
    const double* center;
    const double* inverse_scale;
};

// A run of entries of one row whose squares are wanted, and where the run after it starts, to be prefetched.
struct Piece {
    const void* entries;
    long n;
    const void* soon;  // n entries from here on are in memory that may be read
    Transform transform;
};

struct ClipKernels {
    // sum of squares of `n` <= kTileColumns entries of a row, (g - a) / b under a transform.
    double (*squares)(const void* row, long n, Transform transform);
    // sums[j] = (fresh ? 0 : sums[j]) + sum_r factors[r] * rows[r][j] for begin <= j < end, over `groups` <=
    // kMostGroups groups of kGroup rows, one after the other; and the sum of squares of `next`, as
    // `squares` gives it, in the same sweep. Without next (null) the rows' own columns are prefetched.
    double (*add)(double* sums, const void* const* rows, const double* factors, int groups, long begin,
                  long end, bool fresh, const Piece* next, Transform transform);
};

// out[j] = (add ? out[j] : 0) + sums[j] + deviation * noise[j]; noise may be null.
struct FinishKernels {
    void (*single)(float* out, const double* sums, const float* noise, double deviation, long n, bool add);
    void (*full)(double* out, const double* sums, const double* noise, double deviation, long n, bool add);
};

TIGHTDP_DECLARE_SIMD(ClipKernels, clip_kernels, (Dtype dtype, bool transformed))
TIGHTDP_DECLARE_SIMD(FinishKernels, finish_kernels, ())

}  // namespace tightdp
