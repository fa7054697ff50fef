// The distribution of a composition's privacy loss on a circular grid, with bounds on the errors of its curve. A curve
// is delta as a function of epsilon.
#pragma once

#include <vector>

#include "curve.hpp"
#include "plan.hpp"

namespace tightdp::prv {

// A composition on a circular grid. Its curve differs from the true delta by three kinds of errors. `mesh` bounds the
// errors in epsilon, except with a small probability. `tails` bounds this probability plus the probability outside of
// the grid. `rounding` bounds the rounding error of a value that is read off the curve. With these bounds
// (docs/theory/prv.md, Theorem 2)
//     curve(eps + mesh) - tails - rounding <= delta(eps) <= curve(eps - mesh) + tails + rounding.
class ComposedLoss {
  public:
    ComposedLoss(const std::vector<Run>& parts, const Plan& plan, const Composer& compose);

    // Returns the curve, which may be read at losses of at least `floor`.
    Curve curve(double floor) const {
        return Curve(made_.values.data(), plan_.n, first_, plan_.step, offset_, floor);
    }

    double mesh() const { return plan_.mesh + mean_error_; }
    double tails() const { return plan_.mesh_failure + plan_.outside; }

    // Returns a bound on the rounding error of the curve at every epsilon >= eps where the curve is at most `value`.
    double rounding(const Curve& curve, double eps, double value) const;

  private:
    void correct_mean(const Run& part, const Support& support, const CellSums& sums);
    void bound_rounding(const std::vector<Run>& parts);

    Plan plan_;
    Composite made_;
    long long first_ = 0;
    double offset_ = 0, mean_error_ = 0, count_ = 0, vector_error_ = 0;
};

}  // namespace tightdp::prv
