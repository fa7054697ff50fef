// Estimates from which a plan (grid_plan.hpp) is made (docs/theory/grid.md, section 7). Estimates need not be
// certified, because the engine's bounds hold for any plan.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "loss_distributions/loss_distribution.hpp"

namespace tightdp::grid {

// `value` is the cumulant ln E[e^{tilt Y}] of a privacy loss Y at one tilt, a real number. `mean` and `variance` are
// its first two derivatives by the tilt.
struct Cumulant {
    double value = 0, mean = 0, variance = 0;
};

// Rounds a tilt to a whole power of 2^(1/2^halvings). These powers are called the rungs of a ladder. Tilts of a plan
// take these few values so that consecutive bounds of a growing composition use the same lattice (grid.md, section 8).
inline constexpr int kRungHalvings = 5;
double round_grid_tilt(double tilt, int halvings = kRungHalvings);

// The interval of one part's losses for which the lattice has points.
struct Range {
    double left, right;
};

struct Totals;

// The sketches of the parts of a composition. A sketch is a list of a few hundred lumps of mass that stand for a
// distribution. Each sketch is cut off on the right where the mass beyond is below e^{log_beyond} divided by the part's
// count. log_beyond and ln(count) are rounded in the direction that makes this mass smaller. A distribution with a
// heavy tail has a useful tilt only when it is cut off.
class Sketches {
  public:
    Sketches(const std::vector<Part>& parts, double log_beyond);

    // Returns the cumulant of one step of one part.
    Cumulant estimate_grid_cumulant(std::size_t part, double tilt) const;
    // Returns the cumulant of all parts together. The count of each part is multiplied by `share` and rounded down to
    // an integer, as for the levels of a plan.
    Cumulant estimate_grid_cumulant(double tilt, double share = 1) const;

    // Returns the range of one part. The range begins at a loss `left` for which e^{tilt left} P(Y < left) is below
    // e^{-log_left} E[e^{tilt Y}] / (count of the part), and ends where the sketch ends.
    Range estimate_grid_range(std::size_t part, double tilt, double log_left) const;

    // least_grid_loss() and largest_grid_loss() return the smallest and the largest sum of losses, with `share` as in
    // estimate_grid_cumulant().
    double least_grid_loss(double share = 1) const;
    double largest_grid_loss(double share = 1) const;

  private:
    struct Cut {
        const Sketch* sketch;
        std::size_t size;
        double count, infinity;
        double left, right;  // ends of the sketch, which is cut off on the right only
        bool smooth;         // whether the distribution has a density
        std::shared_ptr<Totals> known;
    };

    static Cumulant compute_sketch_cumulant(const Cut& cut, double tilt);
    static std::int64_t count_cumulant_work(
        const Cut& cut);  // units of work (runtime/work_budget.hpp) for one cumulant

    std::vector<Cut> cuts_;
    std::int64_t units_ = 0;  // units of work for the cumulants of all cuts
    // Known cumulants of all parts together, of all but the last part, and of all but the last two parts.
    std::array<std::shared_ptr<Totals>, 3> totals_;
};

// Returns ln kappa(tilt), where kappa(tilt) is the supremum over y of e^{-tilt y} (1 - e^{-y})_+. With the moment
// M(tilt) = E[e^{tilt Y}], delta(eps) <= kappa(tilt) M(tilt) e^{-tilt eps}.
double log_grid_tilt_factor(double tilt);

// The best bound by one moment: the tilt at which the bound is smallest, and the bound. For delta(epsilon), `bound` is
// the logarithm of the bound on delta. For epsilon(delta), `bound` is the bound on epsilon itself.
struct Saddle {
    double tilt, bound;
};
Saddle find_grid_saddle_at_epsilon(const Sketches& sketches, double epsilon);
// find_grid_saddle_at_delta() uses tilts up to the larger of two limits: about `finest` / (bound on epsilon), and a
// tilt that suits a normal distribution. A larger tilt would only give more precision than was requested.
Saddle find_grid_saddle_at_delta(const Sketches& sketches, double log_delta, double finest);

// Exponents whose moments bound the mass outside of a window. The exponents are added to the tilt in use: they are
// positive for the mass on the right, and negative for the mass on the left. The units are the powers of two nearest to
// exponents that suit a normal distribution. Larger exponents suit lighter tails, and smaller ones heavier tails.
struct TailExponents {
    static constexpr std::size_t kCount = 8;
    using Each = std::array<double, kCount>;
    // The right exponents are right_unit p, and the left ones are -left_from - left_unit p, for some powers of two p.
    double right_unit = 1, left_unit = 1, left_from = 0;

    Each list_right_exponents() const;
    Each list_left_exponents() const;
};

// An interval of a composition's losses that a lattice covers.
struct Window {
    double left, right;
    TailExponents exponents;
};

// Returns the window outside of which the tilted composition has at most e^{-log_tail} of its mass on either side.
// `share` is the fraction of each part's steps that are composed. The number of steps is rounded down.
Window choose_grid_window(const Sketches& sketches, double tilt, double log_tail, double share);

// Returns the shortest window with which delta(epsilon) = e^{log_delta} changes by a factor of at most 1 +-
// e^{-log_tail}. Mass outside of the window is wound round to points inside (grid_spectra.hpp). Tilted mass at a loss
// counts towards delta in proportion to the kernel e^{-tilt t} (1 - e^{-t})_+ with t = loss - epsilon. So winding does
// little harm if mass from the left lands where the kernel is small, and mass from the right where the kernel is 0.
Window choose_shortest_grid_window(const Sketches& sketches, double tilt, double epsilon, double log_delta,
                                   double log_tail);

}  // namespace tightdp::grid
