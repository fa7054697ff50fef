// The loops of the contour engine over nodes. Nodes are the values u of a standard normal variable at which integrands
// are evaluated. The loops are compiled once for each instruction set (node_sums.simd.cpp).
#pragma once

#include <cstdint>

#include "mgf_moments.hpp"
#include "runtime/dispatch.hpp"

namespace tightdp::contour {

// Arrays over nodes are padded to a multiple of this length. The added nodes have no or almost no weight.
inline constexpr std::int64_t kNodeBlock = 32;

// The nodes u_i = (first + i) h, i = 0..n-1. The likelihood ratio of the mechanism at a node u is W = 1 - q + q e^t,
// where t = u/sigma - 1/(2 sigma^2) (quadrature.hpp).
struct NodeGrid {
    double q, inverse_sigma;  // sampling probability, and 1 over the noise multiplier sigma
    double h;                 // distance between nodes
    double first;    // an integer
    std::int64_t n;  // a multiple of kNodeBlock
};

// Returns an s such that no weight e^{power(i) - u_i^2/2 - s} overflows, or 0 if no weight overflows without s. `most`
// is an upper bound on ln M, where M is the moment generating function of the privacy loss. For speed, s is the largest
// exponent power(i) - u_i^2/2 among nodes two units of u apart. Other exponents may exceed s by some tens, which is far
// from an overflow.
template <class Power>
double weight_shift(const NodeGrid& grid, double most, const Power& power) {
    if (most < kDirect) return 0;
    const std::int64_t stride = static_cast<std::int64_t>(clamp_value(2 / grid.h, 1, static_cast<double>(grid.n)));
    double peak = 0;
    for (std::int64_t i = 0; i < grid.n; i += stride) {
        const double u = (grid.first + static_cast<double>(i)) * grid.h;
        peak = max_value(peak, power(i) - 0.5 * u * u);
    }
    return peak < kDirect ? 0 : peak;
}

}  // namespace tightdp::contour

namespace tightdp {

// Computes for each node the loss L_i = ln W(u_i) and the posterior weight r_i = q e^t / W(u_i).
TIGHTDP_DECLARE_SIMD(void, compute_mgf_nodes, (const contour::NodeGrid& grid, double* loss, double* posterior))

// Computes the members of Moments and, unless `weights` is null, the weights a_i of the nodes. mgf_moments.hpp defines
// the weights, with the exponent `beta` and the number `shift`.
TIGHTDP_DECLARE_SIMD(void, sum_mgf_moments,
                     (const contour::NodeGrid& grid, double beta, double shift, const double* loss,
                      const double* posterior, double* weights, contour::Moments& out))

// Computes xi_m = sum_k a_k (e^{i m step y_k} - 1) for m = 1..count, where i is the imaginary unit. The sum runs over
// the nodes k with the weights a_k and y_k = sign * loss[k]. n is a multiple of kNodeBlock.
TIGHTDP_DECLARE_SIMD(void, sum_mgf_phases,
                     (const double* loss, double sign, const double* weights, std::int64_t n, double step,
                      std::int64_t count, double* re, double* im))

}  // namespace tightdp
