// Uncertified estimates from which a plan is made; the answer is certified whatever they are.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "pld/law.hpp"

namespace tightdp::grid {

struct Cumulant {
    double value = 0, mean = 0, variance = 0;  // ln E[e^{tilt Y}] and its first two derivatives
};

// Tilts of a plan take few values, so that consecutive questions to a growing composition are answered on the same
// lattice (grid.md, section 8): the rungs of a ladder, whole powers of 2^(1/32), or with fewer halvings of the octave
// whole powers of 2, 2^(1/2), ...
inline constexpr int kRungHalvings = 5;
double on_ladder(double tilt, int halvings = kRungHalvings);

// Smallest and largest loss of a distribution that the lattice holds.
struct Range {
    double left, right;
};

struct Totals;

// The sketches of some parts, each cut off on the right where the mass beyond is below e^{log_beyond} over its count,
// both rounded down. A distribution with a heavy tail has a useful tilt only when it is cut off.
class Sketches {
  public:
    Sketches(const std::vector<Part>& parts, double log_beyond);

    Cumulant cumulant(std::size_t part, double tilt) const;
    // The cumulant of all parts together, each to `share` of its count, rounded down as the levels of a plan do.
    Cumulant cumulant(double tilt, double share = 1) const;

    // The range of one part, left of which e^{tilt left} P(Y < left) is below e^{-log_left} over the count, relative
    // to the tilted mass.
    Range range(std::size_t part, double tilt, double log_left) const;

    double least(double share = 1) const;  // of the sum of losses
    double most(double share = 1) const;

  private:
    struct Cut {
        const Sketch* sketch;
        std::size_t size;
        double count, infinity;
        double left, right;  // where the sketch, uncut on the left, begins and ends
        bool smooth;         // whether the law has a density
        std::shared_ptr<Totals> known;
    };

    static Cumulant of(const Cut& cut, double tilt);
    static std::int64_t units(const Cut& cut);  // of work

    std::vector<Cut> cuts_;
    std::int64_t units_ = 0;  // of all
    std::array<std::shared_ptr<Totals>, 3> totals_;  // of all parts, of all but the last, of all but the last two
};

// ln sup over y of e^{-tilt y} (1 - e^{-y})_+: delta(eps) <= M(tilt) e^{-tilt eps} times its exponential.
double log_kernel(double tilt);

// The tilt with the smallest bound on delta(epsilon) and the logarithm of that bound, or the tilt with the smallest
// bound on epsilon(delta) and that bound.
struct Saddle {
    double tilt, bound;
};
Saddle saddle_of_epsilon(const Sketches& sketches, double epsilon);
// The tilt is at most `finest` over epsilon, unless one that suits a normal law is larger: the question does not ask
// for the precision that a larger tilt would give.
Saddle saddle_of_delta(const Sketches& sketches, double log_delta, double finest);

// Exponents, relative to the tilt in use, whose moments bound the mass outside of a window: right ones are positive,
// left ones negative. They are the exponents of a normal law's tails times powers of two, for lighter and heavier
// tails.
struct TailExponents {
    static constexpr std::size_t kCount = 8;
    using Each = std::array<double, kCount>;
    double right_unit = 1, left_unit = 1, left_from = 0;  // powers of two; what left exponents count from

    Each right() const;
    Each left() const;
};

// An interval of the lattice.
struct Window {
    double left, right;
    TailExponents exponents;
};

// The window outside of which the tilted composition has at most e^{-log_tail} of its mass on either side.
Window window(const Sketches& sketches, double tilt, double log_tail, double share);

// The shortest window that leaves delta(epsilon) = e^{log_delta} unchanged up to a factor 1 +- e^{-log_tail}: mass
// left of epsilon may wrap round to where the kernel is small, mass right of it to where the kernel vanishes.
Window window_for(const Sketches& sketches, double tilt, double epsilon, double log_delta, double log_tail);

}  // namespace tightdp::grid
