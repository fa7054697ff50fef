// Composition on a lattice: spectra, powers, what rounding and wrapping round cost (docs/theory/grid.md, section 5).
#pragma once

#include <cstdint>
#include <vector>

#include "grid_lattice.hpp"

namespace tightdp::grid {

// Weights and how far off they are: the true ones are within |e| of these, e = e1 + e2 non-negative weights on the
// same lattice (e1 possibly anywhere) with |e1|_1 <= error1 and |e2|_2 <= error2, all in units of e^{w.log_scale}.
// The value of w.log_scale itself may be off by log_error.
struct Inexact {
    Weights w;
    double error1 = 0, error2 = 0, log_error = 0;
};

// One side (upper or lower) of one factor of a product of powers.
struct Factor {
    const Inexact* law;
    double power;
};

// The product of the factors on [first, first + n) of a lattice of spacing h; n a power of two. Further tilts, both
// positive, show how little lies right and left of that.
Inexact compose(const std::vector<Factor>& factors, std::int64_t first, std::size_t n, double h, double further_right,
                double further_left);

}  // namespace tightdp::grid
