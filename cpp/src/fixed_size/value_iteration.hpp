// Steps whose pair an adversary chooses from a menu, by past outputs: bounds on the worst curve
// (docs/theory/adaptive.md section 2).
#pragma once

#include <cstddef>
#include <vector>

namespace tightdp::fixed_size {

// P-masses at the losses (i - n) h, i = 0 .. 2n, and at infinity.
struct Kernel {
    std::vector<double> mass;
    double infinity = 0;
};

// The lattice of losses, and the tilt under which sums over it are rounded.
struct Scale {
    std::size_t n;
    double h, tilt;
};

// The delta of a kernel's distribution at 0, h, .. n h, rounded up.
std::vector<double> curve_of(const Kernel& kernel, double h);

// Bounds of the worst delta at 0, h, .. n h after `count` steps, from above where the kernels dominate the pairs of the
// menu, the worst delta at n h is at most `beyond`, and the reverse of each pair is in the menu as well; or from below
// where the pairs of the menu dominate the kernels. Throws OutOfWork, std::bad_alloc, and std::logic_error for kernels
// whose mass, but for roundings, is below 1, or from below above 1.
std::vector<double> worst(const std::vector<Kernel>& menu, const Scale& scale, std::size_t count, bool upper,
                          double beyond);

}  // namespace tightdp::fixed_size
