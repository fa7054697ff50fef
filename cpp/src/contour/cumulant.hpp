// The moment generating function of a whole composition on the host: the Curve of plan.hpp and invert.hpp.
#pragma once

#include <cmath>
#include <vector>

#include "bins.hpp"
#include "engine.hpp"
#include "part.hpp"
#include "trapezoid_sum.hpp"

namespace tightdp::contour {

// Plain Gaussians in closed form, sampled ones on nodes that follow the abscissa.
class Cumulant {
  public:
    static constexpr double kEnough = 0;

    explicit Cumulant(const Composition& composition);

    double total_count() const { return total_count_; }
    long nodes() const;
    void restart() { reach_ = -1; }

    // Extends coarse nodes as needed. False: too many nodes.
    bool at(double c, Cumulants& out);
    Status choose_length(Plan& plan, double sd, double need, double log_inverse);
    Status place_for(const Plan& plan, double log_inverse);
    // ln M(c) of the composition with its error, on the nodes placed last.
    CertifiedLogMgf certified(double c);

    void transform(const Plan& plan);
    CurveValue value(const Plan& plan, double epsilon) const;

  private:
    static bool place(std::vector<Part>& parts, double c_most, double s_most, double log_inverse, long most_nodes);
    std::vector<Part>& guides() { return guides_.empty() ? parts_ : guides_; }
    double reach(const Plan& plan, double log_inverse) const;
    // From where on |M(c + is)/M(c)| is below e^-need; beyond reach where that is not known. By moved lines
    // (not for a replaced record) or by minorants (which serve many laws of large noise better).
    double length_by_tails(const Plan& plan, double first, double need, double reach) const;
    double length_by_cells(const Plan& plan, double first, double need, double reach);

    std::vector<Part> parts_;
    // Of many parts, instead of them where nothing rests on it.
    std::vector<Bin> bins_;
    std::vector<Part> guides_;
    Pair pair_;
    double mu2_, total_count_ = 0, reach_ = -1;
    std::vector<double> memory_;
    Ordinates ordinates_{};
};

}  // namespace tightdp::contour
