// The moment generating function M of the privacy loss of a Gaussian mechanism on a Poisson sample, computed from sums
// over nodes u. Nodes are values of a standard normal variable. W(u) = 1 - q + q e^{u/sigma - 1/(2 sigma^2)} is the
// likelihood ratio of the mechanism at u, and quadrature.hpp defines the integrand. Arguments z = c + is of M are
// called abscissae.
#pragma once

#include <cstdint>
#include <vector>

#include "mgf_moments.hpp"
#include "node_sums.hpp"

namespace tightdp::contour {

// Values at the nodes u for the neighbouring relation "replace". `log_weight` is ln W(u). `posterior` and
// `mirrored_posterior` are the posterior weights (node_sums.hpp) at u and at -u. `loss` is the privacy loss ln W(u) -
// ln W(-u), and `loss_error` is the error of `loss` in units of 2^-53.
struct ReplaceNodes {
    std::vector<double> log_weight, posterior, mirrored_posterior, loss, loss_error;
};

class SampledMgf {
  public:
    // `count` is the number of steps, at least 1.
    SampledMgf(const Pair& pair, double count) : pair_(pair), count_(count) {}

    const Pair& pair() const { return pair_; }
    double step_count() const { return count_; }

    // Places nodes for all abscissae c + is with c <= c_most and |s| <= s_most. The trapezoid rule and the omission of
    // nodes beyond a finite range each cause a relative error of at most e^{-log_inverse}. Returns false if this
    // accuracy takes more than most_nodes nodes.
    bool place_nodes(double c_most, double s_most, double log_inverse, std::int64_t most_nodes);

    // Estimates count * ln M and its derivatives at c <= c_most.
    Cumulants estimate_cumulants(double c);

    // Returns count * ln M(c) with bounds on its errors, for c <= c_most.
    CertifiedLogMgf log_mgf(double c);

    // Returns the number of nodes that place_nodes() would need, or infinity if there would be too many.
    double count_nodes_needed(double c_most, double s_most, double log_inverse) const;

    // Computes xi_m = M(c + i m step)/M(c) - 1 for m = 1..steps, and a bound on the rounding error of each. Returns a
    // bound on the error of the trapezoid rule that holds for all xi_m.
    double compute_mgf_ratios(double c, double step, std::int64_t steps, double* re, double* im, double* rounding);

    std::int64_t node_count() const { return grid_.n; }
    // Returns the largest |loss| of a node. For each abscissa c + is, |s loss| must be at most kMostPhase
    // (inversion/plan.hpp).
    double largest_mgf_node_loss() const;

  private:
    friend class MinorantTail;

    double choose_mgf_weight_shift(double c) const;
    void sum_node_moments(double c, Moments& out, double* weights);

    // Compute, for the relation "replace", the values at the nodes and the moments at the abscissa c.
    void compute_replace_nodes(const NodeGrid& grid, ReplaceNodes& out) const;
    void sum_replace_moments(const NodeGrid& grid, const ReplaceNodes& nodes, double c, Moments& out,
                             double* weights) const;

    Pair pair_;
    double count_;
    NodeGrid grid_{};
    double margin_ = 0, s_most_ = 0;
    std::vector<double> loss_, posterior_, weights_;
    ReplaceNodes replace_nodes_;
};

// Largest numbers of nodes. With more nodes the grid engine is faster. kMaxNodes is the limit for the final sums. The
// limit kMaxGuideNodes is smaller, because about thirty sums are computed before the abscissa is chosen.
inline constexpr std::int64_t kMaxNodes = 1 << 18;
inline constexpr std::int64_t kMaxGuideNodes = 1 << 14;

}  // namespace tightdp::contour
