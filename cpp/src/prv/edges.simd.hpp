// The loops of prv::prv_cells, compiled once for each instruction set (edges.simd.cpp).
#pragma once

#include <cstdint>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Numbers of edges y_j at which the argument z_c is below 0, for the first and the second normal component (see
// below).
struct EdgesLeft {
    std::int64_t base, shifted;
};

// The functions below compute one sum for each cell edge y_j = (first + j) h, j < count. Each normal component c of the
// distribution adds w_c g(z_c(y_j)). Here g(z) is Phi(z) for z < 0, and minus the upper tail 1 - Phi(z) for z >= 0,
// where Phi is the standard normal distribution function. The length of `out` is count rounded up to a multiple of
// eight.
//
// The sampled Gaussian has two components with z_0 = sigma t + 1/(2 sigma) and z_1 = z_0 - 1/sigma, where
// t = ln((e^y - 1 + q)/q).
TIGHTDP_DECLARE_SIMD(EdgesLeft, prv_edges_sampled,
                     (double sigma, double q, double w0, double w1, double h, double first, std::int64_t count,
                      double* out))

// The Gaussian has one component with the weight 1 and z = y/mu - mu/2.
TIGHTDP_DECLARE_SIMD(EdgesLeft, prv_edges_gaussian,
                     (double mu, double h, double first, std::int64_t count, double* out))

}  // namespace tightdp
