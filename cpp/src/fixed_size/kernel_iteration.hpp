// Bounds on the worst privacy profile of several steps. An adversary sees the past outputs, and chooses the dominating
// pair of each step from a list called the menu (docs/theory/adaptive.md, section 2). A pair (P, Q) of distributions
// dominates another pair if its privacy profile, delta as a function of epsilon, is nowhere smaller. The P-mass of a
// set is its mass under P.
#pragma once

#include <cstddef>
#include <vector>

namespace tightdp::fixed_size {

// A distribution of privacy losses on a lattice, called a kernel. A kernel has P-masses at the losses (i - n) h for
// i = 0 .. 2n, and a P-mass at infinity.
struct Kernel {
    std::vector<double> mass;
    double infinity = 0;
};

// The lattice of the losses (i - n) h. Sums over the lattice are computed with terms multiplied by e^{tilt loss}, and
// the tilt affects rounding errors only.
struct Scale {
    std::size_t n;
    double h, tilt;
};

// Returns the delta of a kernel at eps = 0, h, .. n h, rounded up.
std::vector<double> compute_kernel_curve(const Kernel& kernel, double h);

// Returns bounds on the worst delta at eps = 0, h, .. n h after `count` steps. If `upper`, the bounds are upper bounds.
// Then the kernels must dominate the pairs, the menu must contain the reverse of each pair, and the worst delta at n h
// must be at most `beyond`. If not `upper`, the bounds are lower bounds, and the pairs must dominate the kernels.
// Throws OutOfWork and std::bad_alloc. Throws std::logic_error if the mass of a kernel is below 1 for upper bounds, or
// above 1 for lower bounds, by more than rounding errors.
std::vector<double> bound_worst_kernel_deltas(const std::vector<Kernel>& menu, const Scale& scale, std::size_t count,
                                              bool upper, double beyond);

}  // namespace tightdp::fixed_size
