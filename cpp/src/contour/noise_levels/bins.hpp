// Bins of noise levels, and bounds on the decay of all levels of a bin. A level is a part of a composition with its own
// noise multiplier. If there are many levels, bins guide the choice of the contour (contour.md, section 10).
#pragma once

#include <span>
#include <vector>

#include "contour/composition.hpp"
#include "contour/tail_bound/moved_line_tail.hpp"

namespace tightdp::contour {

// Parts with the same sampling probability and neighbouring noise multipliers.
struct Bin {
    double q, low, high;  // sampling probability, smallest and largest noise multiplier
    double count, members;  // number of steps and number of levels
    double middle;  // the noise multiplier sigma for which 1 / sigma^2 is the mean over all steps
};

// Puts levels into bins. The levels are sorted by sampling probability and then by noise multiplier. The largest noise
// multiplier of a bin is at most `widest` times the smallest.
std::vector<Bin> bins(std::span<const Sampled> levels, double widest);

// Bounds on the decay of all steps of a bin together, for "remove" or "add".
class BinTail {
  public:
    BinTail(const Bin& bin, Direction direction, double c, double first_s, double log_inverse);

    // Returns a lower bound on -ln |phi(t)| for every t >= s, where phi is the product over all steps of the bin.
    double log_decay(double s) const;

  private:
    double count_;
    MovedLineTail tail_;  // the bound for the largest noise multiplier
    double share_;        // weight of its tilted distribution in that of each level of the bin (section 10)
};

}  // namespace tightdp::contour
