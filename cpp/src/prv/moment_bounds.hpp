// Moment bounds (Chernoff bounds) on the tails of a composition (docs/theory/prv.md, section 3).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "contour/mgf/sampled_mgf.hpp"
#include "epsilon_and_delta.hpp"

namespace tightdp::prv {

// Bounds on the sum S of all privacy losses, from an upper bound on K(c) = ln E[e^{cS}]. Each part (Run) has `count`
// equal releases. K(c) is the sum of count ln E[e^{cY}] over the parts, where Y is the loss of one release of a part.
// The bounds do not include the probability with which a run reveals everything (Run::failure in
// epsilon_and_delta.hpp).
class MomentBounds {
  public:
    explicit MomentBounds(std::vector<Run> parts);

    // Returns a number b with P(S >= b) <= e^{-log_inverse}: the minimum of (K(c) + log_inverse)/c over c > 0. Returns
    // +inf if no bound on K is known.
    double upper_quantile(double log_inverse);

    // Returns a number b, which may be negative, with delta(b) <= e^{-log_inverse}. This bound follows from
    // delta(eps) <= e^{K(c) - c eps} c^c/(1+c)^(1+c).
    double epsilon(double log_inverse);

    // Returns the logarithm of an upper bound on delta(eps).
    double log_delta(double eps);

    // Returns the minimum x of (K(c) + log_inverse)/(c + 1) over c >= 0. If the parts belong to the reversed pairs, -x
    // is a lower quantile of the sum S for the original pairs: P(S <= -x) is at most e^{-log_inverse}. Here P and Q are
    // the distributions of each original pair, in this order. The bound follows from P(S <= -x) <= e^{-x} Q(S' >= x),
    // where S' is the sum of the reversed losses, and Q(...) is a probability under Q.
    double reversed_quantile(double log_inverse);

  private:
    double composed_cgf(double c);
    bool place_nodes(double c_most);
    template <class F>
    double minimize_prv_moment_bound(F objective);

    std::vector<Run> parts_;
    std::vector<std::optional<contour::SampledMgf>> sampled_;
    double c_most_ = 0;
};

}  // namespace tightdp::prv
