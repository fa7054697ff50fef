// ln(1 - e^x) without cancellation for x near 0 or far below 0. Maechler, "Accurately computing log(1 - exp(-|a|))",
// 2012.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

// Returns ln(1 - e^x) for x <= 0, which is -inf at 0, and NaN for x > 0. The relative error is at most 6 * 2^-53
// (docs/theory/special.md, section 3).
TIGHTDP_HD inline double log1mexp(double x) noexcept {
    constexpr double ln2 = 0.69314718055994530942;  // at x = -ln 2, e^x and 1 - e^x are equally large
    return x > -ln2 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

}  // namespace tightdp
