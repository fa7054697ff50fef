// The menu for replacing a record in a sample of fixed size with Gaussian noise. Each pair corresponds to a triangle in
// the unit disc, and triangles are grouped in cells (docs/theory/adaptive.md, section 3).
#pragma once

#include "value_iteration.hpp"

namespace tightdp::fixed_size {

// Returns kernels for the pairs ((1-q) N(c) + q N(a), (1-q) N(c) + q N(b)) with a, b, c of norm at most 1, where N has
// the standard deviation 1/mu. Each pair is dominated by one of the kernels or by a mixture of two of them.
// Preconditions: mu > 0, 0 < q < 1.
std::vector<Kernel> triangles(double mu, double q, std::size_t n, double h);

// Returns upper bounds on the worst delta at 0, h, .. n h after `blocks` blocks of `count` such steps each, where each
// step is chosen given past outputs. Blocks are composed by a pair that dominates a block. `beyond` is an upper bound
// on the worst delta at n h. Throws OutOfWork and std::bad_alloc.
std::vector<double> above(double mu, double q, const Scale& scale, std::size_t count, std::size_t blocks,
                          double beyond);

}  // namespace tightdp::fixed_size
