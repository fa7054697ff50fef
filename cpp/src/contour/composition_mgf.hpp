// The moment generating function (MGF) M of the privacy loss of a whole composition, on the host. The class implements
// the interface Curve of contour/inversion/plan.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "composition.hpp"
#include "contour/inversion/host_trapezoid_sum.hpp"
#include "contour/many_noise_multipliers/noise_bins.hpp"
#include "contour/many_noise_multipliers/noise_interpolation.hpp"
#include "contour/mgf/sampled_mgf.hpp"

namespace tightdp::contour {

// A limit on the cost of inverting M along the line of all z = c + is with real s, and the tolerance of the inversion.
// A few steps with a small sampling probability q need a long line. Later efforts of kByLength allow more products, but
// at a larger tolerance. With ten times the tolerance, a third to a half of the points z ("abscissae") are enough.
// Above the limit of kWhole, the grid engine is faster.
struct Effort {
    double looser;    // factor by which the tolerance is increased
    double products;  // largest number of products, one for each node and abscissa
};
inline constexpr Effort kWhole{1, 2e8}, kByLength[] = {{1, 2e7}, {100, 1e8}, {1000, 2e8}};
// Returns the efforts to try in turn until one succeeds. For many distributions or for "replace", the cost does not
// depend mainly on the length of the line, and there is only one effort.
inline std::span<const Effort> list_composition_efforts(const Composition& composition) {
    const bool few = composition.sampled.size() < 40 && composition.direction != Direction::replace;
    return few ? std::span<const Effort>(kByLength) : std::span(&kWhole, 1);
}

// The MGF of a composition. Gaussians without sampling ("plain") have a closed form. The MGF of a sampled Gaussian is
// an integral, computed as a sum over nodes. The choice of the nodes depends on the arguments z = c + is of M.
class CompositionMgf {
  public:
    // Newton's iteration for epsilon (invert.hpp) ends once the sum misses delta by less than this fraction of the
    // sum's certified error. At 0 it never ends for this reason.
    static constexpr double kEnough = 0;

    // `groups` allows putting many noise levels in bins and interpolating between them, which may widen the bounds.
    CompositionMgf(const Composition& composition, bool groups, double most_products);

    double total_count() const { return total_count_; }
    std::int64_t node_count() const;
    void restart_estimates() { reach_ = -1; }

    // Computes estimates of ln M and its derivatives at c, with more nodes if needed. Returns false if there would be
    // too many nodes.
    bool estimate_cumulants(double c, Cumulants& out);
    // Sets plan.count so that |M(c + is)/M(c)| <= e^-need beyond the end of the line. `sd` is the standard deviation of
    // the privacy loss y, tilted by the factor e^{cy} / M(c). `log_inverse` is -ln of the allowed relative error of the
    // MGF of one step, here and in place_nodes_for_plan().
    Status choose_length(Plan& plan, double sd, double need, double log_inverse);
    // Places nodes that are precise enough for the plan.
    Status place_nodes_for_plan(const Plan& plan, double log_inverse);
    // Returns ln M(c) at the plan's abscissa with its error, from the nodes that were placed last.
    CertifiedLogMgf certified_log_mgf(double c);
    // Returns an upper bound on ln M(c).
    double log_mgf_upper(double c) { return sampled_log_mgf_upper(c) + 0.5 * mu2_ * c * (c + 1) * (1 + 1e-14); }
    // sampled_log_mgf() and sampled_log_mgf_upper() return the same values as certified_log_mgf() and log_mgf_upper(),
    // but without the plain Gaussians.
    CertifiedLogMgf sampled_log_mgf(double c);
    double sampled_log_mgf_upper(double c);
    bool is_composition_mgf_grouped() const { return !bins_.empty(); }

    // Returns a lower bound on -ln |M(c + is)/M(c)| for every s >= end. The bound comes from moving the line of
    // integration into the complex plane (tail_bound/moved_line.hpp). `log_inverse` is -ln of the intended error of
    // this bound for one step. The direction must be "remove" or "add".
    double decay_beyond(const Plan& plan, double end, double log_inverse) const;
    // Returns ln(M(z)/M(c)) at each abscissa, from the nodes that were placed last, without the plain Gaussians.
    std::vector<LogRatio> log_mgf_ratios(const Plan& plan);

    void compute_ordinates(const Plan& plan) { sum_.set_trapezoid_ordinates(log_mgf_ratios(plan), plan, mu2_); }
    CurveValue evaluate_curve(const Plan& plan, double epsilon) const { return sum_.evaluate_curve(plan, epsilon); }

  private:
    void arrange_levels(double c, double log_inverse);
    std::vector<SampledMgf>& list_composition_mgf_guides() { return guides_.empty() ? parts_ : guides_; }
    double longest_line(const Plan& plan, double log_inverse) const;
    // length_by_tails() and length_by_cells() find an s from which on |M(c + is)/M(c)| is below e^-need. The result is
    // larger than `reach` if no such s is known. length_by_tails() uses moved lines, which do not exist for "replace".
    // length_by_cells() uses minorants, densities below that of the loss (tail_bound/minorant.hpp). They are better for
    // many distributions with large noise.
    std::vector<NoiseBinTail> make_bin_tails(double c, double first, double exact) const;
    // Sets `most` to the largest decay that was found.
    double length_by_tails(const Plan& plan, double first, double need, double reach, double& most) const;
    double length_by_cells(const Plan& plan, double first, double need, double reach);

    // If there are many noise levels, levels_ holds them, sorted by q and sigma, and bins_ groups them. In estimates, a
    // bin's level with the smallest noise (its guide) stands for all levels of the bin. The trapezoid sum interpolates
    // ln M between levels, and parts_ holds the levels that are not interpolated.
    std::vector<Sampled> levels_;
    std::vector<NoiseBin> bins_;
    std::vector<SampledMgf> guides_;
    std::vector<Interpolation> interpolations_;
    std::vector<SampledMgf> parts_;
    Direction direction_;
    // mu2_ is the sum of count / sigma^2 over the plain Gaussians.
    double mu2_, most_products_, total_count_ = 0, reach_ = -1;
    HostSum sum_;
};

}  // namespace tightdp::contour
