// One Poisson-subsampled Gaussian on the contour: its nodes, its tilted cumulants, its moment generating function.
#pragma once

#include <cstdint>
#include <vector>

#include "moments.hpp"
#include "node_sums.hpp"

namespace tightdp::contour {

// ln W(u), the posterior weights at u and -u, and the loss ln W(u) - ln W(-u) with its error in units of
// 2^-53.
struct ReplacedNodes {
    std::vector<double> ahead, bright, faint, loss, eta;
};

class SampledMgf {
  public:
    // count >= 1
    SampledMgf(const Pair& pair, double count) : pair_(pair), count_(count) {}

    const Pair& pair() const { return pair_; }
    double count() const { return count_; }

    // Places nodes that serve abscissae up to c_most + is, |s| <= s_most, with relative error
    // e^{-log_inverse} each for quadrature and range. False if that takes more than most_nodes.
    bool place(double c_most, double s_most, double log_inverse, std::int64_t most_nodes);

    // count * ln M and its derivatives at c <= c_most; not certified.
    Cumulants cumulants(double c);

    // count * ln M(c), certified; c <= c_most.
    CertifiedLogMgf log_mgf(double c);

    // Number of nodes that place() would need, or infinity if it is no number or too large.
    double nodes_for(double c_most, double s_most, double log_inverse) const;

    // xi_m = M(c + i m step)/M(c) - 1, m = 1..steps, and a bound on the rounding error of each. Returns the
    // bound on the error of the trapezoid rule, common to all.
    double products(double c, double step, std::int64_t steps, double* re, double* im, double* rounding);

    std::int64_t nodes() const { return grid_.n; }
    // The largest |loss| on a node: the phases step * |loss| are reduced exactly below 1e5.
    double largest_loss() const;

  private:
    friend class MinorantTail;

    double shift(double c) const;
    void moments(double c, Moments& out, double* weights);

    // Nodes and moments for "replace": both logarithms of a node, and their sums.
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

// Largest number of nodes, beyond which the grid engine is the better choice: for the final sums, and for the sums
// that guide the choice of abscissa, which are some thirty.
inline constexpr std::int64_t kMaxNodes = 1 << 18;
inline constexpr std::int64_t kMaxGuideNodes = 1 << 14;

}  // namespace tightdp::contour
