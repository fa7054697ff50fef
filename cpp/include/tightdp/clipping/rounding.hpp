// The rounding of a clip: how far under C a factor stays so that a clipped row, as it is rounded, has norm C at most.
// docs/theory/clipping.md, section 2.
#pragma once

#include <stdint.h>
#include <string.h>

#include "../config.hpp"

namespace tightdp::clipping {

// The roundings of a row after it was multiplied by its factor. They decide how far below C its norm has to stay.
struct Rounding {
    double slack;    // relative: largest error of the norm plus that of one rounded product
    bool to_single;  // the factor is rounded down to 24 bits
    double smallest;  // of weight * max_norm: below it subnormal products could lose more than the slack, so 0
};

// float32 and narrower: rows are multiplied in float32, one rounding of 2^-24 a product; their norms are sums
// of exact squares in double, whose error the second term covers for any number of columns that fits in
// memory.
TIGHTDP_HD inline Rounding single_rounding() noexcept {
    return {0x1p-24 + 0x1p-36, true, 0x1p-90};
}

// float64, and any row that is centred or scaled: a chain of at most `longest_chain` additions and three more
// roundings.
TIGHTDP_HD inline Rounding double_rounding(double longest_chain) noexcept {
    return {(longest_chain + 8) * 0x1p-53, false, 0x1p-900};
}

// The exact form: what is rounded away below a grid step does not count, so no size is too small; the factor
// stays a double until it is on the grid.
TIGHTDP_HD inline Rounding exact_rounding(Rounding of_sums) noexcept {
    return {of_sums.slack, false, 0};
}

// The largest float32 (as a double) <= x, for x in [2^-126, 2^127].
TIGHTDP_HD inline double round_down_to_single(double x) noexcept {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= ~uint64_t{0x1fffffff};
    memcpy(&x, &bits, sizeof bits);
    return x;
}

}  // namespace tightdp::clipping
