// Composition on a lattice: spectra, powers, and their rounding errors (docs/theory/grid.md, section 5). A spectrum is
// the discrete Fourier transform of a distribution's weights on a lattice.
#pragma once

#include <cstdint>
#include <vector>

#include "grid_weights.hpp"
#include "runtime/aligned.hpp"
#include "tilt_estimates.hpp"

namespace tightdp::grid {

// Weights on a lattice, with bounds on their errors. At each point the true weight differs from the stored one by at
// most e1 + e2, where e1 and e2 are non-negative weights on the same lattice. Their norms are bounded by |e1|_1 <=
// error1 and |e2|_2 <= error2, in units of e^{weights.log_scale}. e1 may include points that are not stored, and e2 is
// zero outside of `span` consecutive points. The error of weights.log_scale is at most log_error. `last` is the index
// of the last point at which the true weights may be positive.
struct InexactWeights {
    Weights weights;
    double error1 = 0, error2 = 0, log_error = 0;
    double last = 0;
    double span = 0;
};

// The members that a Spectrum (of one distribution) and a Product of powers of spectra share. Weights are wound round a
// circle of n points: the weight with the index I is added to the point I mod n. "Unwound" weights are the weights
// before winding.
struct OnCircle {
    AlignedArray z;        // spectrum of the wound weights
    bool nothing = false;  // whether only the trivial bound is known, because there are no
                           // weights, or because weights exceed the range of doubles
    double log_scale = 0, log_error = 0;
    double error1 = 0;
    double least = 0, most = 0;  // smallest and largest index of the unwound weights
    double last = 0, reach = 0;  // largest index of a true weight, and the sum of |last| over factors
    // Logarithms of moments, rounded up. A moment is the sum of y_I e^{exponent I h} over the unwound weights y_I, with
    // their scale, where h is the lattice's step. `right` has a moment for each exponent of
    // TailExponents::list_right_exponents() (tilt_estimates.hpp), and `left` for each of
    // TailExponents::list_left_exponents().
    TailExponents::Each right{}, left{};
    double moments_size = 0;  // for each moment, bound on the sum of its terms' magnitudes
};

// The spectrum of one distribution's weights on a circle of n points. The weights belong to the upper side, which
// dominates the distribution, or to the lower side, which the distribution dominates (grid_weights.hpp). The weights
// add up to just under 1.
struct Spectrum : OnCircle {
    double error2 = 0, norm2 = 0;
};

Spectrum transform_grid_weights(const InexactWeights& inexact, const TailExponents& exponents, double h, std::size_t n);

// The upper or the lower side of a product of powers of spectra. error1 and error2 are sums of the factors' errors.
// They become bounds when they are multiplied by e^growth, the largest factor by which the other factors magnify an
// error (grid.md, section 5.1).
struct Product : OnCircle {
    double error2 = 0, growth = 0, relative = 0;
    double terms = 0;  // number of factors, and of terms in each sum over the factors
    bool empty = true;
};

// Writes the product of `before` and a power of `factor` to `after`, which may be the same object as `before`.
void multiply_grid_spectra(const Product& before, const Spectrum& factor, double power, Product& after);

// Returns the weights of a product on the window of indices [first, first + n). Winding has added the weights outside
// of the window to weights inside of it, and the errors do not cover this.
InexactWeights restore_grid_weights(const Product& product, std::int64_t first);

// Cuts off the weights at both ends that are below four times the mean size of the errors. The moments (OnCircle) would
// otherwise magnify the errors at the ends.
void trim_grid_weights(InexactWeights& inexact);

}  // namespace tightdp::grid
