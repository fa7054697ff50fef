// The composed privacy loss on its circular grid, with bounds on all that separates its curve from the truth.
#pragma once

#include <memory>
#include <vector>

#include "prv_curve.hpp"
#include "prv_plan.hpp"
#include "tightdp/aligned.hpp"
#include "tightdp/fft/real_fft.hpp"

namespace tightdp::prv {

// curve(eps + mesh) - tails - rounding <= delta(eps) <= curve(eps - mesh) + tails + rounding, where curve()
// is this law's and rounding is taken at the point where the curve is read. docs/theory/prv.md, Theorem 2.
class Composed {
  public:
    Composed(const std::vector<Part>& parts, const Plan& plan);

    // Good down to `floor`.
    Curve curve(double floor) const {
        return Curve(values_.data(), plan_.n, first_, plan_.step, offset_, floor);
    }

    double mesh() const { return plan_.mesh + mean_error_; }
    double tails() const { return plan_.mesh_failure + plan_.outside; }

    // For a reading at eps or above, where the curve is at most `value`.
    double rounding(const Curve& curve, double eps, double value) const;

  private:
    void discretise(const Part& part, const Support& support, double* out);
    void bound_rounding(const std::vector<Part>& parts);

    Plan plan_;
    AlignedArray values_;
    std::shared_ptr<const RealFft> fft_;
    long long first_ = 0;
    double offset_ = 0, mean_error_ = 0, count_ = 0, vector_error_ = 0;
};

}  // namespace tightdp::prv
