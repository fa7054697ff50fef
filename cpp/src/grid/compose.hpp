// Composition on a lattice: spectra, powers, and their rounding errors (docs/theory/grid.md, section 5).
#pragma once

#include <cstdint>
#include <vector>

#include "estimate.hpp"
#include "lattice.hpp"
#include "runtime/aligned.hpp"

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

// The members that a factor and a product of factors share.
struct OnCircle {
    AlignedArray z;                          // the spectrum
    bool nothing = false;                    // no weights, or beyond what doubles hold: no bound but the trivial one
    double log_scale = 0, log_error = 0;
    double error1 = 0;
    double least = 0, most = 0;              // indices of the unwound weights
    double last = 0, reach = 0;              // of the true ones; the sum of magnitudes of those indices
    // ln sum y_I e^{exponent I h} of unwound weights y, scale included, at each exponent; rounded up.
    TailExponents::Each right{}, left{};
    double moments_size = 0;                 // the largest magnitude of all that was added up to any of them
};

// One side (upper or lower) of one law on a circle of n points, scaled to a sum just under 1.
struct Spectrum : OnCircle {
    double error2 = 0, norm2 = 0;
};

Spectrum transform(const Inexact& law, const TailExponents& exponents, double h, std::size_t n);

// One side of a product of powers of spectra. The error terms are those of section 5.1, before they grow.
struct Product : OnCircle {
    double error2 = 0, growth = 0, relative = 0;
    double terms = 0;  // of each sum
    bool empty = true;
};

// The product of `before` and a power, in that order, written to `after`, which may be the same.
void multiply(const Product& before, const Spectrum& factor, double power, Product& after);

// The weights on [first, first + n), wound round it. The errors do not cover the weights outside of it, nor what these
// add inside where they wrap round.
Inexact weights_of(const Product& product, std::int64_t first);

// Cuts off both ends as far as errors exceed the weights there: the moments that follow would measure errors alone.
void trim(Inexact& law);

}  // namespace tightdp::grid
