// Uncertified estimates that a plan is made from; what the plan leads to is certified whatever they are.
#pragma once

#include <vector>

#include "grid_law.hpp"

namespace tightdp::grid {

struct Cumulant {
    double value = 0, mean = 0, variance = 0;  // ln E[e^{tilt Y}] and its first two derivatives
};

// Losses between which a law is put on the lattice.
struct Range {
    double left, right;
};

// The sketches of some parts, each cut off on the right where the mass beyond is below e^{log_beyond} over its count.
// Of a law with a heavy tail only what is cut off has a useful tilt.
class Sketches {
  public:
    Sketches(const std::vector<Part>& parts, double log_beyond);

    Cumulant cumulant(std::size_t part, double tilt) const;
    // All parts together, each to `share` of its count, rounded down as the levels of a plan do.
    Cumulant cumulant(double tilt, double share = 1) const;

    // Left of the range e^{tilt left} P(Y < left) is below e^{-log_left} of the tilted mass.
    Range range(std::size_t part, double tilt, double log_left) const;

    double least(double share = 1) const;  // of the sum of losses
    double most(double share = 1) const;

  private:
    struct Cut {
        const Sketch* sketch;
        std::size_t size;
        double count, infinity;
        double left, right;  // where the sketch, uncut on the left, begins and ends
    };
    std::vector<Cut> cuts_;
};

// ln sup over y of e^{-tilt y} (1 - e^{-y})_+: delta(eps) <= M(tilt) e^{-tilt eps} times its exponential.
double log_kernel(double tilt);

// The tilt that bounds delta(epsilon) best and the logarithm of that bound, or the one that bounds epsilon(delta) best
// and that bound.
struct Saddle {
    double tilt, bound;
};
Saddle saddle_of_epsilon(const Sketches& sketches, double epsilon);
// Beyond what suits a normal law the tilt is at most `finest` over epsilon: what a larger one would tell apart is not
// asked for.
Saddle saddle_of_delta(const Sketches& sketches, double log_delta, double finest);

// An interval of the lattice and the tilts (relative to the one in use) whose moments show how little lies outside.
struct Window {
    double left, right;
    double further_right;  // for mass right of the window
    double further_left;   // for mass left of it, negative
    double further_far;    // for mass so far right that it wraps round to where it counts
};

// Where the composition, tilted, has all but e^{-log_tail} of its mass on either side.
Window window(const Sketches& sketches, double tilt, double log_tail, double share);

// The shortest window that leaves delta(epsilon) = e^{log_delta} as it is up to a factor 1 +- e^{-log_tail}: mass left of
// epsilon may wrap round to where the kernel is small, mass right of it to where the kernel vanishes.
Window window_for(const Sketches& sketches, double tilt, double epsilon, double log_delta, double log_tail);

}  // namespace tightdp::grid
