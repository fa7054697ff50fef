// The clip factor, by which an example is multiplied: docs/theory/clipping.md, sections 1 and 2.
#pragma once

#include "../config.hpp"
#include "rounding.hpp"

namespace tightdp::clipping {

// flat: min(1, C / n) (Abadi et al. 2016). normalize: C / (n + stability) (Bu et al. 2023, "automatic
// clipping").
enum class Rule : int { flat, normalize };

// `factor`, or what a float32 can hold, if that multiplies: shorter, and zeros stay zeros.
TIGHTDP_HD inline double at_most(double factor, bool single) noexcept {
    return single && factor > 0x1p127 ? 0x1p127 : factor;
}

// The factor F >= 0 for an example of computed norm `norm`.
// Precondition: max_norm > 0; weight >= 0 finite; stability >= 1e-100 under `normalize`,
// which is far more than a norm can lose to squares that underflow.
// Postcondition: the row F g, each product rounded, has L2 norm <= weight * max_norm; F = 0 where the norm is
// not finite, so that an example with an infinity or NaN contributes nothing. F = weight exactly where the
// norm is clear of max_norm (flat) and the weight needs no rounding. Never subnormal: a subnormal quotient or
// factor has lost bits, perhaps upward, and what is that small is nothing.
TIGHTDP_HD inline double clip_factor(double norm, double max_norm, double weight, Rule rule, double stability,
                                     Rounding rounding) noexcept {
    if (!(norm <= 1.7976931348623157e308) || weight * max_norm < rounding.smallest) return 0.0;
    const double safe = max_norm * (1.0 - rounding.slack);
    double quotient = 1.0;
    if (rule == Rule::normalize)
        quotient = safe / (norm + stability);
    else if (norm > safe)
        quotient = safe / norm;
    const double factor = at_most(quotient * weight, rounding.to_single);
    if (quotient < 0x1p-1022 || factor < (rounding.to_single ? 0x1p-126 : 0x1p-1022)) return 0.0;
    return rounding.to_single ? round_down_to_single(factor) : factor;
}

// The exact form: T such that an example adds the integers trunc(fl(T g_j)), from its factor F. They have L2
// norm <= weight * max_norm / grid (docs/theory/clipping.md, section 7). The grid is a power of two, so that
// T is F / grid exactly but for the cut to 24 bits; subnormal, it is nothing.
TIGHTDP_HD inline double grid_factor(double factor, double inverse_grid, bool to_single) noexcept {
    const double scaled = at_most(factor * inverse_grid, to_single);
    if (scaled < (to_single ? 0x1p-126 : 0x1p-1022)) return 0.0;
    return to_single ? round_down_to_single(scaled) : scaled;
}

}  // namespace tightdp::clipping
