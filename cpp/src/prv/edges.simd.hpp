// The loops behind prv::cells, compiled once per instruction set (edges.simd.cpp).
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Number of edges left of the centre of each normal component.
struct EdgesLeft {
    std::int64_t base, shifted;
};

// Computes at the edges y_j = (first + j) h, j < count, the sum over the components c of w_c g(z_c(y_j)), where g(z) =
// Phi(z) for z < 0 and -(1 - Phi(z)) for z >= 0, so that no tail is ever subtracted from 1. `out` has room for count
// rounded up to a multiple of eight.
//
// Sampled: z_0 = sigma t + 1/(2 sigma), z_1 = z_0 - 1/sigma, t = ln((e^y - 1 + q)/q).
TIGHTDP_DECLARE_SIMD(EdgesLeft, prv_edges_sampled,
                     (double sigma, double q, double w0, double w1, double h, double first, std::int64_t count,
                      double* out))

// Gaussian: one component of weight 1, z = y/mu - mu/2.
TIGHTDP_DECLARE_SIMD(EdgesLeft, prv_edges_gaussian,
                     (double mu, double h, double first, std::int64_t count, double* out))

}  // namespace tightdp
