// The loops of clipping over one tile of columns, one copy an instruction set. All variants return the same
// bits.
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"
#include "tightdp/clipping/narrow_float.hpp"

namespace tightdp {

enum class Dtype : int { float16, bfloat16, float32, float64 };
inline constexpr const char* kDtypeNames[] = {"float16", "bfloat16", "float32", "float64"};

// f.template operator()<T>() for the type T that a dtype names.
template <class F>
[[gnu::always_inline]] inline auto with_dtype(Dtype dtype, const F& f) {
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

// Number of columns in a tile: its sums (8 KB) and the rows added to them stay in the first-level cache. Half as many
// cost a tenth of the time for starting and ending sweeps.
inline constexpr std::int64_t kTileColumns = 1024;
// Number of rows that are added in the row's own precision before the sum in double takes them.
inline constexpr int kGroup = 4;
// Number of groups in one sweep: more than eight rows at once are more streams than a core follows.
inline constexpr int kMostGroups = 2;
inline constexpr int kSweepRows = kMostGroups * kGroup;
// Bound on the integers of a row in exact sums: the integers of a sweep then fit 32 bits.
inline constexpr double kLaneLimit = 0x1p31 / kSweepRows;

// A centre and the inverse of a scale, at the tile's first column; null where rows are taken as they are.
struct Transform {
    const double* center;
    const double* inverse_scale;
};

// Some columns of some rows. Rows that are not there are rows of zeros.
struct Sweep {
    int groups;      // of kGroup rows, at most kMostGroups
    std::int64_t n;  // columns, at most kTileColumns
    Transform transform;
    const void* const* rows;
};

struct ClipKernels {
    // squares[r] += sum_j rows[r][j]^2, or ((g - a) / b)^2 under a transform.
    void (*square)(const Sweep& s, double* squares);
    // sums[j] = (fresh ? 0 : sums[j]) + sum_r factors[r] * rows[r][j], group after group, in doubles; exact:
    // + sum_r trunc(factors[r] * rows[r][j]), in 64-bit integers modulo 2^64.
    void (*add)(const Sweep& s, const double* factors, void* sums, bool fresh);
};

// out[j] = (add ? out[j] : 0) + sums[j] + deviation * noise[j]; noise may be null. `of_integers`: out[j] =
// grid * integers[j], rounded.
struct FinishKernels {
    void (*single)(float* out, const double* sums, const float* noise, double deviation, std::int64_t n, bool add);
    void (*full)(double* out, const double* sums, const double* noise, double deviation, std::int64_t n, bool add);
    void (*single_of_integers)(float* out, const std::int64_t* integers, double grid, std::int64_t n);
    void (*full_of_integers)(double* out, const std::int64_t* integers, double grid, std::int64_t n);
};

TIGHTDP_DECLARE_SIMD(ClipKernels, clip_kernels, (Dtype dtype, bool transformed, bool exact))
TIGHTDP_DECLARE_SIMD(FinishKernels, finish_kernels, ())

}  // namespace tightdp
