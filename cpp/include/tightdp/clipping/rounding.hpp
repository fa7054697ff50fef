// Constants that make up for rounding in clipping. C is the clipping norm. The clip factor is a little smaller than its
// formula, so that the rounded entries of the clipped row have a norm of at most C (docs/theory/clipping.md, section
// 2).
#pragma once

#include <stdint.h>
#include <string.h>

#include "../config.hpp"

namespace tightdp::clipping {

// Bounds on the rounding errors in clipping a row. They decide how far below C the norm of the clipped row has to stay.
struct Rounding {
    double slack;    // largest relative error of the norm, plus the largest relative error of a rounded product
    bool to_single;  // true if the factor is rounded down to 24 bits
    // Smallest value of weight * max_norm for which the clip factor is not 0. Here `weight` is the weight of the
    // record. Below this value, subnormal products could change the norm by more than the slack.
    double smallest;
};

// Returns the rounding of rows of float32 or a narrower type. Rows are multiplied in float32, and each product has an
// error of at most 2^-24. The squared norms are sums of exact squares, added in double. The second term of the slack
// covers the error of these sums for any number of columns that fits in memory.
TIGHTDP_HD inline Rounding single_clip_rounding() noexcept {
    return {0x1p-24 + 0x1p-36, true, 0x1p-90};
}

// Returns the rounding of rows of float64, and of all rows that are centred or scaled. `longest_chain` is the largest
// number of successive additions in the sum of squares. The slack covers these additions, and the roundings of the
// norm, the factor and the products (docs/theory/clipping.md, section 2).
TIGHTDP_HD inline Rounding double_clip_rounding(double longest_chain) noexcept {
    return {(longest_chain + 8) * 0x1p-53, false, 0x1p-900};
}

// Returns the rounding of exact releases, which truncate the entries of clipped rows to multiples of a grid step.
// Errors below a grid step do not matter there, so `smallest` is 0. The clip factor stays a double until it is divided
// by the grid step. `of_sums` is the rounding of the same rows in a release that is not exact.
TIGHTDP_HD inline Rounding exact_clip_rounding(Rounding of_sums) noexcept {
    return {of_sums.slack, false, 0};
}

// Returns the largest float32 that is at most x, as a double, for x in [2^-126, 2^127].
TIGHTDP_HD inline double round_down_to_single(double x) noexcept {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= ~uint64_t{0x1fffffff};
    memcpy(&x, &bits, sizeof bits);
    return x;
}

}  // namespace tightdp::clipping
