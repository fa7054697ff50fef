// The trapezoid sum over the abscissae z = c + i m step, in the memory of the host. The sum approximates delta(epsilon)
// by inverting M, the moment generating function of the privacy loss. Its terms are called ordinates
// (trapezoid_sum.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/team.hpp"
#include "runtime/work_budget.hpp"
#include "trapezoid_sum.hpp"

namespace tightdp::contour {

// Units of work (runtime/work_budget.hpp) for the functions at one abscissa, such as a sine and a cosine.
inline constexpr std::int64_t kAbscissaUnits = 20;

class HostSum {
  public:
    // Computes the ordinates from ln(M(z)/M(c)) at the abscissae. `ratios` does not include the Gaussians without
    // sampling, which are given by mu2.
    void set_trapezoid_ordinates(const std::vector<LogRatio>& ratios, const Plan& plan, double mu2) {
        const std::size_t n = ratios.size();
        memory_.resize(4 * n);
        double* const at = memory_.data();
        ordinates_ = {at, at + n, at + 2 * n, at + 3 * n};
        for (std::size_t m = 0; m < n; ++m)
            ordinates_.set_trapezoid_ordinate(static_cast<std::int64_t>(m), ratios[m], plan.c, plan.step, mu2);
    }

    CurveValue evaluate_curve(const Plan& plan, double epsilon) const {
        work::spend(kAbscissaUnits * plan.count);
        return evaluate_trapezoid_sum(SoloTeam{}, ordinates_, plan, 2, epsilon);
    }

  private:
    std::vector<double> memory_;
    Ordinates ordinates_{};
};

}  // namespace tightdp::contour
