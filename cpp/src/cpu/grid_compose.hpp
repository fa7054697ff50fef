// Composition on a lattice: spectra, powers, and what rounding costs (docs/theory/grid.md, section 5).
#pragma once

#include <cstdint>
#include <vector>

#include "grid_lattice.hpp"

namespace tightdp::grid {

// Weights and how far off they are: the true ones are within e1 + e2 of these, non-negative weights on the same
// lattice (e1 possibly outside of what is stored), |e1|_1 <= error1 and |e2|_2 <= error2, in units of e^{w.log_scale}.
// e2 lives on `span` consecutive points. The value of w.log_scale itself may be off by log_error. The true weights end
// at the index `last`.
struct Inexact {
    Weights w;
    double error1 = 0, error2 = 0, log_error = 0;
    double last = 0;
    double span = 0;
};

// One side (upper or lower) of one factor of a product of powers.
struct Factor {
    const Inexact* law;
    double power;
};

// The product of the factors on [first, first + n) of a lattice of spacing h, wound round it; n a power of two. What
// lies outside and what it covers inside is not among the errors.
Inexact convolve(const std::vector<Factor>& factors, std::int64_t first, std::size_t n);

// Cuts off both ends as far as they are drowned by errors: further moments would see nothing but those.
void trim(Inexact& law);

// ln of sum y_I e^{further I h} over the unwound product y, scale included, rounded up.
double log_moment(const std::vector<Factor>& factors, double further, double h);

// Smallest and largest index of the unwound product.
struct Extent {
    double least, most;
};
Extent extent(const std::vector<Factor>& factors);

}  // namespace tightdp::grid
