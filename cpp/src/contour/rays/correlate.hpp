// Computes the sums over the nodes of a path for all points of a ray at once (docs/theory/rays.md, section 4). A path
// and a ray are curves in the complex plane on which integrals are computed as sums. The outer integral, over the
// argument c + zeta of the moment generating function, has its points zeta on a ray (invert_on_rays.cpp). The inner
// integral, over a variable h, has its nodes on a path (turned_path.hpp).
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
// kPointBlock. The coefficient a_i belongs to node i. k_{i + j} is e^{zeta h} - 1 at node i and point j. It depends on
// i + j alone, because ln |h| and ln |zeta| are evenly spaced with the same step.
TIGHTDP_DECLARE_SIMD(void, correlate_ray_nodes,
                     (const double* a_re, const double* a_im, std::int64_t nodes, const double* k_re,
                      const double* k_im, std::int64_t points, double* out_re, double* out_im))

}  // namespace tightdp
