// ln(1 - e^x) without cancellation at either end. Maechler, "Accurately computing log(1 - exp(-|a|))", 2012.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp {

// x <= 0; log1mexp(0) = -inf, NaN for x > 0. Error at most 6 u relatively. docs/theory/special.md, 3.
TIGHTDP_HD inline double log1mexp(double x) noexcept {
    constexpr double ln2 = 0.69314718055994530942;  // where e^x and 1 - e^x are equally large
    return x > -ln2 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

}  // namespace tightdp
