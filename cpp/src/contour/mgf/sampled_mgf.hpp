// The moment generating function M of the privacy loss of a Gaussian mechanism on a Poisson sample, computed from sums
// over nodes u. The weight W(u) and the integrand are those of quadrature.hpp. Arguments z = c + is of M are called
// abscissae.
#pragma once

#include <cstdint>
#include <vector>

#include "moments.hpp"
#include "node_sums.hpp"

namespace tightdp::contour {

// Values at the nodes u for "replace": ln W(u), the posterior weights at u and at -u, the loss ln W(u) - ln W(-u), and
// the error of this loss in units of 2^-53.
struct ReplacedNodes {
    std::vector<double> ahead, bright, faint, loss, eta;
};

class SampledMgf {
  public:
    // `count` is the number of steps, at least 1.
    SampledMgf(const Pair& pair, double count) : pair_(pair), count_(count) {}

    const Pair& pair() const { return pair_; }
    double count() const { return count_; }

    // Places nodes for the abscissae up to c_most + is, |s| <= s_most. The trapezoid rule and the finite range of nodes
    // each have a relative error of at most e^{-log_inverse}. Returns false if this takes more than most_nodes nodes.
    bool place(double c_most, double s_most, double log_inverse, std::int64_t most_nodes);

    // Estimates count * ln M and its derivatives at c <= c_most.
    Cumulants cumulants(double c);

    // Returns count * ln M(c) with bounds on its errors, for c <= c_most.
    CertifiedLogMgf log_mgf(double c);

    // Returns the number of nodes that place() would need, or infinity if there would be too many.
    double nodes_for(double c_most, double s_most, double log_inverse) const;

    // Computes xi_m = M(c + i m step)/M(c) - 1 for m = 1..steps, and a bound on the rounding error of each. Returns a
    // bound on the error of the trapezoid rule that holds for all xi_m.
    double products(double c, double step, std::int64_t steps, double* re, double* im, double* rounding);

    std::int64_t nodes() const { return grid_.n; }
    // Returns the largest |loss| of a node. Its product with |s|, a phase, must be at most kMostPhase.
    double largest_loss() const;

  private:
    friend class MinorantTail;

    double shift(double c) const;
    void moments(double c, Moments& out, double* weights);

    // Compute the values at the nodes and the moments for "replace".
    void nodes_replaced(const NodeGrid& grid, ReplacedNodes& out) const;
    void moments_replaced(const NodeGrid& grid, const ReplacedNodes& nodes, double c, Moments& out,
                          double* weights) const;

    Pair pair_;
    double count_;
    NodeGrid grid_{};
    double margin_ = 0, s_most_ = 0;
    std::vector<double> loss_, posterior_, weights_;
    ReplacedNodes both_;
};

// Largest numbers of nodes. With more nodes the grid engine is faster. kMaxNodes is for the final sums, and
// kMaxGuideNodes for the about thirty sums that guide the choice of the abscissa.
inline constexpr std::int64_t kMaxNodes = 1 << 18;
inline constexpr std::int64_t kMaxGuideNodes = 1 << 14;

}  // namespace tightdp::contour
