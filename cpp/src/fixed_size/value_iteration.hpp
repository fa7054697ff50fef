// Bounds on the worst privacy profile of steps for which an adversary chooses each dominating pair, given past outputs,
// from a list called the menu (docs/theory/adaptive.md, section 2).
#pragma once

#include <cstddef>
#include <vector>

namespace tightdp::fixed_size {

// A distribution on a lattice, called a kernel: P-masses at the losses (i - n) h, i = 0 .. 2n, and at infinity.
struct Kernel {
    std::vector<double> mass;
    double infinity = 0;
};

// The lattice of losses, and the tilt with which sums over it are computed. The tilt affects rounding errors only.
struct Scale {
    std::size_t n;
    double h, tilt;
};

// Returns the delta of a kernel at 0, h, .. n h, rounded up.
std::vector<double> curve_of(const Kernel& kernel, double h);

// Returns bounds on the worst delta at 0, h, .. n h after `count` steps. If `upper`, they are upper bounds. Then the
// kernels must dominate the pairs, the menu must contain the reverse of each pair, and the worst delta at n h must be
// at most `beyond`. Otherwise they are lower bounds, and the pairs must dominate the kernels. Throws OutOfWork,
// std::bad_alloc, and std::logic_error if, apart from rounding, the mass of a kernel is below 1 for upper bounds or
// above 1 for lower bounds.
std::vector<double> worst(const std::vector<Kernel>& menu, const Scale& scale, std::size_t count, bool upper,
                          double beyond);

}  // namespace tightdp::fixed_size
