// The menu of replacing a record in a sample of fixed size with Gaussian noise: triangles in the unit disc, by cells
// (docs/theory/adaptive.md section 3).
#pragma once

#include "value_iteration.hpp"

namespace tightdp::fixed_size {

// Kernels that dominate, for every a, b, c of norm at most 1, ((1-q) N(c) + q N(a), (1-q) N(c) + q N(b)) or a mixture
// of two of them, N of deviation 1/mu. Pre: mu > 0, 0 < q < 1.
std::vector<Kernel> triangles(double mu, double q, std::size_t n, double h);

// Upper bounds of the worst delta at 0, h, .. n h after `blocks` times `count` such steps, chosen by past outputs. A
// block is composed as a pair of its own. `beyond` bounds the worst delta at n h. Throws OutOfWork, std::bad_alloc.
std::vector<double> above(double mu, double q, const Scale& scale, std::size_t count, std::size_t blocks,
                          double beyond);

}  // namespace tightdp::fixed_size
