// The moment generating function of a whole composition on the host: the Curve of contour/inversion.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "composition.hpp"
#include "contour/inversion/host_sum.hpp"
#include "contour/mgf/sampled_mgf.hpp"
#include "contour/noise_levels/bins.hpp"
#include "contour/noise_levels/interpolation.hpp"

namespace tightdp::contour {

// Limit on the cost of a line, and its precision. If few steps of small q make the line long, it is made less precise
// before it may cost more: at a tenth of the decay that is asked for, abscissae are a third to a half as many.
struct Effort {
    double looser;    // times the tolerance
    double products;  // of nodes and abscissae, at most: beyond the largest the grid engine is faster
};
inline constexpr Effort kWhole{1, 2e8}, kByLength[] = {{1, 2e7}, {100, 1e8}, {1000, 2e8}};
// The efforts to try in turn until one serves. For many parts or a replaced record, the length of the line does not
// decide the cost.
inline std::span<const Effort> efforts(const Composition& composition) {
    const bool few = composition.sampled.size() < 40 && composition.direction != Direction::replace;
    return few ? std::span<const Effort>(kByLength) : std::span(&kWhole, 1);
}

// The moment generating function of a composition: plain Gaussians in closed form, sampled ones on nodes that follow
// the abscissa.
class CompositionMgf {
  public:
    static constexpr double kEnough = 0;

    // groups: whether many noise levels may be looked at in bins and interpolated, which is not always as good.
    CompositionMgf(const Composition& composition, bool groups, double most_products);

    double total_count() const { return total_count_; }
    std::int64_t nodes() const;
    void restart() { reach_ = -1; }

    // Extends coarse nodes as needed. False: too many nodes.
    bool at(double c, Cumulants& out);
    Status choose_length(Plan& plan, double sd, double need, double log_inverse);
    Status place_for(const Plan& plan, double log_inverse);
    // ln M(c) at the plan's abscissa with its error, on the nodes placed last.
    CertifiedLogMgf certified(double c);
    // No less than ln M(c).
    double bounded(double c) { return sampled_bounded(c) + 0.5 * mu2_ * c * (c + 1) * (1 + 1e-14); }
    // certified and bounded without the plain Gaussians.
    CertifiedLogMgf sampled(double c);
    double sampled_bounded(double c);
    bool grouped() const { return !bins_.empty(); }

    // Lower bound on -ln |M(c + is)/M(c)| for every s >= end, by moved lines; first_s as for the plan ("remove",
    // "add").
    double decay_from(const Plan& plan, double end, double log_inverse) const;
    // ln M(z)/M(c) at each abscissa, on the nodes placed last, without the plain Gaussians.
    std::vector<LogRatio> ratios(const Plan& plan);

    void transform(const Plan& plan) { sum_.set(ratios(plan), plan, mu2_); }
    CurveValue value(const Plan& plan, double epsilon) const { return sum_.value(plan, epsilon); }

  private:
    void arrange(double c, double log_inverse);
    std::vector<SampledMgf>& guides() { return guides_.empty() ? parts_ : guides_; }
    double reach(const Plan& plan, double log_inverse) const;
    // Abscissae from which |M(c + is)/M(c)| is below e^-need; beyond reach where none is known. By moved lines (not
    // for a replaced record) or by minorants (which serve better for many distributions of large noise).
    std::vector<BinTail> tails(double c, double first, double exact) const;
    // most: the largest decay that was found.
    double length_by_tails(const Plan& plan, double first, double need, double reach, double& most) const;
    double length_by_cells(const Plan& plan, double first, double need, double reach);

    // Many levels, by q and sigma, are put in bins; the guides of the bins stand for them where no bound rests on it.
    // For the transform they are interpolated, and parts_ holds those that are not.
    std::vector<Sampled> levels_;
    std::vector<Bin> bins_;
    std::vector<SampledMgf> guides_;
    std::vector<Interpolation> interpolations_;
    std::vector<SampledMgf> parts_;
    Direction direction_;
    double mu2_, most_products_, total_count_ = 0, reach_ = -1;
    HostSum sum_;
};

}  // namespace tightdp::contour
