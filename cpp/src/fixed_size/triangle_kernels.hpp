// The menu of dominating pairs for Gaussian noise on a sample of fixed size in which one record is replaced. Each pair
// corresponds to a triangle in the unit disc, and triangles are grouped in cells (docs/theory/adaptive.md, section 3).
// An adversary chooses the pair of each step from the menu. The pairs of the menu are stored as kernels, with masses at
// evenly spaced losses (kernel_iteration.hpp).
#pragma once

#include "kernel_iteration.hpp"

namespace tightdp::fixed_size {

// Returns kernels for the pairs ((1-q) N(c) + q N(a), (1-q) N(c) + q N(b)) with a, b, c of norm at most 1. N(x) is the
// normal distribution with mean x and standard deviation 1/mu. Each pair is dominated by one of the kernels or by a
// mixture of two kernels. The finite losses of kernels are (i - n) h, i = 0 .. 2n. Preconditions: mu > 0, 0 < q < 1.
std::vector<Kernel> list_triangle_kernels(double mu, double q, std::size_t n, double h);

// Returns upper bounds on the worst delta at eps = 0, h, .. n h after `blocks` blocks of `count` steps each. An
// adversary chooses the pair of each step given past outputs. Each block is replaced by a pair that dominates it, and
// these pairs are composed. `beyond` is an upper bound on the worst delta at n h. Throws OutOfWork and std::bad_alloc.
std::vector<double> bound_fixed_size_deltas(double mu, double q, const Scale& scale, std::size_t count,
                                            std::size_t blocks, double beyond);

}  // namespace tightdp::fixed_size
