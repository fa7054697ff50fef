// Decay of one sampled Gaussian's |M(c + is) / M(c)|, by moving the line of integration: the nodes and weights of
// moved_line.hpp. docs/theory/contour.md, section 3.6.
#pragma once

#include <vector>

#include "moved_line.hpp"

namespace tightdp::contour {

class MovedLineTail {
  public:
    // "remove" or "add". For abscissae from first_s on, 1 - B within e^{-log_inverse}.
    MovedLineTail(const Pair& pair, double c, double first_s, double log_inverse);

    // Lower bound on -ln |phi(t)| for every t >= s.
    double log_decay(double s) const;

  private:
    MovedLine line_{};
    std::vector<double> posterior_, weights_;
    double sum_ = 1, rounding_ = HUGE_VAL;
};

}  // namespace tightdp::contour
