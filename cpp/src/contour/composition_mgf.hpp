// The moment generating function of a whole composition on the host: the Curve of contour/inversion.
#pragma once

#include <cmath>
#include <vector>

#include "contour/inversion/trapezoid_sum.hpp"
#include "contour/mgf/sampled_mgf.hpp"
#include "contour/noise_levels/bins.hpp"
#include "contour/noise_levels/interpolation.hpp"
#include "engine.hpp"

namespace tightdp::contour {

// Plain Gaussians in closed form, sampled ones on nodes that follow the abscissa.
class Cumulant {
  public:
    static constexpr double kEnough = 0;

    // groups: whether many noise levels may be looked at in bins and interpolated, which is not always as good.
    Cumulant(const Composition& composition, bool groups);

    double total_count() const { return total_count_; }
    long nodes() const;
    void restart() { reach_ = -1; }

    // Extends coarse nodes as needed. False: too many nodes.
    bool at(double c, Cumulants& out);
    Status choose_length(Plan& plan, double sd, double need, double log_inverse);
    Status place_for(const Plan& plan, double log_inverse);
    // ln M(c) at the plan's abscissa with its error, on the nodes placed last.
    CertifiedLogMgf certified(double c);
    // No less than ln M(c).
    double bounded(double c) { return sampled_bounded(c) + 0.5 * mu2_ * c * (c + 1) * (1 + 1e-14); }
    // The same without the plain Gaussians.
    CertifiedLogMgf sampled(double c);
    double sampled_bounded(double c);
    bool grouped() const { return !bins_.empty(); }

    // Lower bound on -ln |M(c + is)/M(c)| for every s >= end, by moved lines; first_s as for the plan ("remove",
    // "add").
    double decay_from(const Plan& plan, double end, double log_inverse) const;
    // ln M(z)/M(c) at each abscissa, on the nodes placed last, without the plain Gaussians.
    std::vector<LogRatio> ratios(const Plan& plan);

    void transform(const Plan& plan);
    CurveValue value(const Plan& plan, double epsilon) const;

  private:
    void arrange(double c, double log_inverse);
    static bool place(std::vector<Part>& parts, double c_most, double s_most, double log_inverse, long most_nodes);
    std::vector<Part>& guides() { return guides_.empty() ? parts_ : guides_; }
    double reach(const Plan& plan, double log_inverse) const;
    // From where on |M(c + is)/M(c)| is below e^-need; beyond reach where that is not known. By moved lines
    // (not for a replaced record) or by minorants (which serve many laws of large noise better).
    template <class Use>
    auto with_tails(double c, double first, double exact, const Use& use) const;
    double length_by_tails(const Plan& plan, double first, double need, double reach) const;
    double length_by_cells(const Plan& plan, double first, double need, double reach);

    // Many levels, by q and sigma, in bins whose guides stand for them where nothing rests on it. For the transform
    // they are interpolated, and parts_ are those that are not.
    std::vector<Sampled> levels_;
    std::vector<Bin> bins_;
    std::vector<Part> guides_;
    std::vector<Interpolation> interpolations_;
    std::vector<Part> parts_;
    Pair pair_;
    double mu2_, total_count_ = 0, reach_ = -1;
    std::vector<double> memory_;
    Ordinates ordinates_{};
};

}  // namespace tightdp::contour
