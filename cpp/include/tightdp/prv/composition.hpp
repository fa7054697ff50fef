// The PRV engine: Gopi, Lee and Wutschitz, "Numerical composition of differential privacy", 2021, with its
// rounding accounted for. Statement, proof and code pointers: docs/theory/prv.md.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tightdp/prv/law.hpp"

namespace tightdp::prv {

// `count` runs of a mechanism that reveals everything with probability `failure` and otherwise has this
// privacy loss.
struct Run {
    Law law;
    std::uint64_t count;
    double failure = 0;
};

struct Request {
    double eps_error, delta_error;  // as in the paper's Theorem 5.5
    double max_bytes;
};

// The answer does not fit into Request::max_bytes.
class TooLarge : public std::runtime_error {
  public:
    TooLarge(double needed, double allowed);
    double bytes;
};

// lower <= truth <= upper. What moves each end away from the discrete curve: `mesh`, a displacement in
// epsilon, and `tails` + `rounding`, added to delta. points = 0: only the moment bound answered.
struct Answer {
    double lower, upper;
    double mesh, tails, rounding;
    double step, points;
};

// inf{eps >= 0 : delta(eps) <= delta}, delta in (0, 1).
Answer epsilon(const std::vector<Run>& runs, double delta, const Request& request);

// delta(eps), any finite eps.
Answer delta(const std::vector<Run>& runs, double eps, const Request& request);

}  // namespace tightdp::prv
