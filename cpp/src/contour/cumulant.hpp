// The moment generating function of a whole composition on the host: the Curve of plan.hpp and invert.hpp.
#pragma once

#include <cmath>
#include <vector>

#include "engine.hpp"
#include "part.hpp"
#include "sum.hpp"

namespace tightdp::contour {

// Plain Gaussians in closed form, sampled ones on nodes that follow the abscissa.
class Cumulant {
  public:
    static constexpr double kEnough = 0;

    explicit Cumulant(const Composition& composition)
        : pair_(composition.pair), mu2_(composition.gaussian_mu2) {
        for (const Sampled& s : composition.sampled) {
            parts_.emplace_back(s.sigma, s.q, s.count, composition.pair);
            total_count_ += s.count;
        }
    }

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
    bool place(double c_most, double s_most, double log_inverse, long most_nodes);
    double reach(const Plan& plan, double log_inverse) const;
    // From where on |M(c + is)/M(c)| is below e^-need; beyond reach where that is not known. By moved lines
    // (not for a replaced record) or by minorants (which serve many laws of large noise better).
    double length_by_tails(const Plan& plan, double first, double need, double reach) const;
    double length_by_cells(const Plan& plan, double first, double need, double reach);

    std::vector<Part> parts_;
    Pair pair_;
    double mu2_, total_count_ = 0, reach_ = -1;
    std::vector<double> memory_;
    Ordinates ordinates_{};
};

}  // namespace tightdp::contour
