// Moment (Chernoff) bounds on the tails of a composition. docs/theory/prv.md, section 3.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "composition.hpp"
#include "contour/mgf/sampled_mgf.hpp"

namespace tightdp::prv {

// K(c) = sum of count ln E[e^{cY}] over the parts (runs without failures), bounded from above, and what it says of
// their sum S.
class Moments {
  public:
    explicit Moments(std::vector<Run> parts);

    // b with P(S >= b) <= e^{-log_inverse}: the least (K(c) + log_inverse)/c over c > 0; +inf if no K is
    // known.
    double upper_quantile(double log_inverse);

    // b with delta(b) <= e^{-log_inverse} (at negative b too): as above with the Gaussian-free factor
    // c^c/(1+c)^(1+c) of delta(eps) <= M(c) e^{-c eps} c^c/(1+c)^(1+c).
    double epsilon(double log_inverse);

    // ln of an upper bound on delta(eps).
    double log_delta(double eps);

    // The least of (K(c) + log_inverse)/(c + 1) over c >= 0: where these are the reversed laws, -x is a lower
    // quantile, P(S <= -x) <= e^{-x} P_Q(S' >= x).
    double reversed_quantile(double log_inverse);

  private:
    double cgf(double c);
    bool place(double c_most);
    template <class F>
    double least(F objective);

    std::vector<Run> parts_;
    std::vector<std::optional<contour::SampledMgf>> sampled_;
    double c_most_ = 0;
};

}  // namespace tightdp::prv
