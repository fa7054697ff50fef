// Adaptively chosen steps of bounded range: the worst adversary's curve by value iteration
// (docs/theory/filters.md section 9).
#pragma once

#include <cstddef>

namespace tightdp {

// Upper bounds of delta at the losses (i - count * cells) eta / cells, i = 0 .. 2 count cells, for `count`
// steps that an adversary chooses one by one among all that have privacy losses within some interval of
// length eta. Between those losses delta is at most linear in e^eps. Pre: 1e-8 <= eta <= 500, count >= 1,
// cells >= 1, `curve` has 2 count cells + 1 entries. Time: (count cells)^2 / 1e9 seconds or so. Rounded up.
// Throws std::bad_alloc.
void worst_selections(double eta, std::size_t count, std::size_t cells, double* curve);

// An upper bound of sum_j weights[j] delta_mu(eps - losses[j]), delta_mu the curve of a Gaussian with shift
// mu: what a Gaussian adds to a law on `losses`. Pre: mu in [1e-9, 1e9], weights >= 0, all finite; eps -
// losses[j] is rounded, so that eps must be lowered by that beforehand. Relative excess: 1e-14 + n 2^-52.
double gaussian_mixture(double mu, const double* losses, const double* weights, std::size_t n,
                        double eps) noexcept;

}  // namespace tightdp
