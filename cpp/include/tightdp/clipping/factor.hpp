// Computes the clip factor, by which an example is multiplied (docs/theory/clipping.md, sections 1 and 2).
#pragma once

#include "../config.hpp"
#include "rounding.hpp"

namespace tightdp::clipping {

// The formula of the clip factor for the clipping norm C and an example of norm n. `flat` is min(1, C / n) (Abadi et
// al. 2016). `normalize` is C / (n + stability) (Bu et al. 2023, "automatic clipping").
enum class Rule : int { flat, normalize };

// Returns `factor`. If `single` is true, returns min(factor, 2^127), which a float32 can hold. A smaller factor only
// makes the example shorter.
TIGHTDP_HD inline double cap_clip_factor(double factor, bool single) noexcept {
    return single && factor > 0x1p127 ? 0x1p127 : factor;
}

// Returns the factor F >= 0 for an example g whose computed norm is `norm`.
// Preconditions: max_norm > 0, and weight >= 0 is finite. Under `normalize`, stability >= 1e-100. Squares that
// underflow make a norm smaller by far less than this. Postconditions: the row F g, with each product rounded, has an
// L2 norm of at most weight * max_norm. F is 0 if the norm is not finite, so that an example with an infinity or NaN
// contributes nothing. F is also 0 if weight * max_norm < rounding.smallest, because subnormal products could change
// the norm by more than the slack. F is 0 where it would be subnormal, because a subnormal quotient or factor has lost
// bits and may have been rounded up. In all other cases, F under `flat` is exactly the weight if the norm is at most
// max_norm * (1 - rounding.slack) and the weight needs no rounding.
TIGHTDP_HD inline double clip_factor(double norm, double max_norm, double weight, Rule rule, double stability,
                                     Rounding rounding) noexcept {
    if (!(norm <= 1.7976931348623157e308) || weight * max_norm < rounding.smallest) return 0.0;
    const double safe = max_norm * (1.0 - rounding.slack);
    double quotient = 1.0;
    if (rule == Rule::normalize)
        quotient = safe / (norm + stability);
    else if (norm > safe)
        quotient = safe / norm;
    const double factor = cap_clip_factor(quotient * weight, rounding.to_single);
    if (quotient < 0x1p-1022 || factor < (rounding.to_single ? 0x1p-126 : 0x1p-1022)) return 0.0;
    return rounding.to_single ? round_down_to_single(factor) : factor;
}

// Returns the factor T of the exact form, in which integers are added. `factor` is the factor F of an example g. The
// example adds the integers trunc(fl(T g_j)), where fl denotes rounding to floating point. The L2 norm of these
// integers is at most weight * max_norm / grid (docs/theory/clipping.md, section 7). T is F / grid, which is exact
// because the grid is a power of two. With `to_single`, T is rounded down to 24 bits. T is 0 if it would be subnormal.
TIGHTDP_HD inline double grid_clip_factor(double factor, double inverse_grid, bool to_single) noexcept {
    const double scaled = cap_clip_factor(factor * inverse_grid, to_single);
    if (scaled < (to_single ? 0x1p-126 : 0x1p-1022)) return 0.0;
    return to_single ? round_down_to_single(scaled) : scaled;
}

}  // namespace tightdp::clipping
