// The worst privacy profile of adaptively chosen steps of bounded range, by value iteration (docs/theory/filters.md,
// section 9).
#pragma once

#include <cstddef>

namespace tightdp {

// Writes to `curve` upper bounds on delta at eps = (i - count * cells) eta / cells, i = 0 .. 2 count cells. The bounds
// hold for `count` steps that an adversary chooses one by one among all steps whose privacy loss lies in some interval
// of length eta. At other values of eps, interpolation that is linear in e^eps gives upper bounds too.
// Preconditions: 1e-8 <= eta <= 500, count >= 1, cells >= 1, and `curve` has 2 count cells + 1 entries. The time is
// about (count cells)^2 / 1e9 seconds. Throws std::bad_alloc.
void worst_selections(double eta, std::size_t count, std::size_t cells, double* curve);

// Returns an upper bound on the sum of weights[j] delta_mu(eps - losses[j]), where delta_mu is the privacy profile of a
// Gaussian mechanism with the shift mu. This sum is the delta of a composition of two mechanisms: the Gaussian
// mechanism, and a mechanism whose loss is losses[j] with probability weights[j]. Preconditions: mu is in [1e-9, 1e9],
// weights are >= 0, and all numbers are finite. The caller has to lower eps by the rounding error of eps - losses[j].
// The bound exceeds the sum by a relative 1e-14 + n 2^-52 at most.
double bound_gaussian_after_selections(double mu, const double* losses, const double* weights, std::size_t n,
                                       double eps) noexcept;

}  // namespace tightdp
