// Bounds on the decay of |M(c + is) / M(c)| for one Gaussian mechanism on a Poisson sample, by moving the line of
// integration (docs/theory/contour.md, section 3.6). M is the moment generating function of the privacy loss. This
// class holds the nodes and weights for moved_line.hpp.
#pragma once

#include <vector>

#include "moved_line.hpp"

namespace tightdp::contour {

class MovedLineTail {
  public:
    // Chooses the nodes for imaginary parts s >= first_s. Let B(s) be the bound on |M(c + is) / M(c)| from the moved
    // line (moved_line.hpp). The error of 1 - B is about e^{-log_inverse}. The direction must be "remove" or "add".
    MovedLineTail(const Pair& pair, double c, double first_s, double log_inverse);

    // Returns a lower bound on -ln |phi(t)| for every t >= s, where phi(t) = M(c + it) / M(c).
    double log_decay(double s) const;

  private:
    MovedLine line_{};
    std::vector<double> posterior_, weights_;
    double sum_ = 1, rounding_ = HUGE_VAL;
};

}  // namespace tightdp::contour
