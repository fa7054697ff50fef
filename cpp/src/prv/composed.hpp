// The composed privacy loss on its circular grid, with bounds on all that separates its curve from the truth.
#pragma once

#include <vector>

#include "curve.hpp"
#include "plan.hpp"

namespace tightdp::prv {

// curve(eps + mesh) - tails - rounding <= delta(eps) <= curve(eps - mesh) + tails + rounding, where curve()
// is this law's and rounding is taken at the point where the curve is read. docs/theory/prv.md, Theorem 2.
class Composed {
  public:
    Composed(const std::vector<Run>& parts, const Plan& plan, const Composer& compose);

    // Good down to `floor`.
    Curve curve(double floor) const {
        return Curve(made_.values.data(), plan_.n, first_, plan_.step, offset_, floor);
    }

    double mesh() const { return plan_.mesh + mean_error_; }
    double tails() const { return plan_.mesh_failure + plan_.outside; }

    // Rounding error of a reading at eps or above, where the curve is at most `value`.
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
