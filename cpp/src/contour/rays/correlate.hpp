// Computes the sums over the nodes of a path for all points of a ray at once (docs/theory/rays.md, section 4). Nodes
// are the values of h in a sum along a path (turned_path.hpp). Points are the values of zeta in a sum along a ray
// (invert_on_rays.cpp).
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"

namespace tightdp::contour {

// Number of points whose sums are computed together. This number is the same for all instruction sets.
inline constexpr std::int64_t kPointBlock = 16;
// Number of nodes in one chain of additions. The results of the chains are added up in another chain.
inline constexpr std::int64_t kChain = 32;

}  // namespace tightdp::contour

namespace tightdp {

// Computes the complex sums out_j = sum_{i < nodes} a_i k_{i + j} for j < points, where `points` is a multiple of
// kPointBlock. a_i is a number that belongs to node i. k_{i + j} is e^{zeta h} - 1 at node i and point j, which depends
// on i + j alone.
TIGHTDP_DECLARE_SIMD(void, correlate_ray_nodes,
                     (const double* a_re, const double* a_im, std::int64_t nodes, const double* k_re,
                      const double* k_im, std::int64_t points, double* out_re, double* out_im))

}  // namespace tightdp
