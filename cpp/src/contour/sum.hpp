// The finite trapezoid sum over the abscissae and all that is certified of it. docs/theory/contour.md, sections 1 to 5.
#pragma once

#include <vector>

#include "plan.hpp"

namespace tightdp::contour {

class TrapezoidSum {
  public:
    // The transform on the abscissae of the plan. The cumulant carries the nodes that the plan placed.
    TrapezoidSum(Cumulant& cumulant, const Plan& plan);

    struct Value {
        double delta, slope;                                // the sum and its derivative
        double aliasing, truncation, quadrature, rounding;  // certified; aliasing is one-sided
        double error() const { return aliasing + truncation + quadrature + rounding; }
        double below() const { return delta - error(); }
        double above() const { return delta + truncation + quadrature + rounding; }
    };
    Value at(double epsilon) const;

  private:
    Plan plan_;
    // h_m = (M(z)/M(c)) / (z (z + 1)), halved at m = 0, and the bounds on its rule and rounding errors.
    std::vector<double> re_, im_, rule_, round_;
};

}  // namespace tightdp::contour
