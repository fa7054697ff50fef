// Bins of noise levels. A level is all steps of a composition that have the same sampling probability and the same
// noise multiplier. The contour is the line z = c + is on which the moment generating function is inverted. If there
// are many levels, bins guide the choice of the contour (docs/theory/contour.md, section 10).
#pragma once

#include <span>
#include <vector>

#include "contour/composition.hpp"
#include "contour/tail_bound/moved_line_tail.hpp"

namespace tightdp::contour {

// Levels with the same sampling probability and neighbouring noise multipliers.
struct NoiseBin {
    double q, low, high;  // sampling probability, smallest and largest noise multiplier
    double count, members;  // number of steps and number of levels
    double middle;  // the noise multiplier whose 1 / sigma^2 is the mean of the steps' 1 / sigma^2
};

// Puts levels into bins. The levels are sorted by sampling probability and then by noise multiplier. The largest noise
// multiplier of a bin is at most `widest` times the smallest.
std::vector<NoiseBin> bin_noise_levels(std::span<const Sampled> levels, double widest);

// Bounds on the decay of the moment generating function along the contour, for all steps of a bin together, and for
// "remove" or "add".
class NoiseBinTail {
  public:
    // `c` is the real part of the contour, and `first_s` the smallest imaginary part for which the bounds are used.
    // `log_inverse` is -ln of the intended relative error.
    NoiseBinTail(const NoiseBin& bin, Direction direction, double c, double first_s, double log_inverse);

    // Returns a lower bound on -ln |phi(t)| for every t >= s. Here phi(t) is the product of M(c + it) / M(c) over all
    // steps of the bin, where M is the moment generating function of the step's privacy loss.
    double log_decay(double s) const;

  private:
    double count_;
    MovedLineTail tail_;  // the bound for the largest noise multiplier
    // Tilting multiplies a density by e^{c loss}. Each level's tilted distribution is a mixture, in which the tilted
    // distribution of the largest noise multiplier has at least the weight share_ (section 10).
    double share_;
};

}  // namespace tightdp::contour
