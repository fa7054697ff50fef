// Many noise levels in few bins, which guide the choice of the contour, and the decay of a whole bin at once.
// docs/theory/contour.md, section 10.
#pragma once

#include <span>
#include <vector>

#include "contour/composition.hpp"
#include "contour/tail_bound/moved_line_tail.hpp"

namespace tightdp::contour {

// Parts of one sampling probability with neighbouring noise multipliers.
struct Bin {
    double q, low, high;  // the least and the largest noise multiplier
    double count, members;
    double middle;  // that of the mean of 1 / sigma^2, which ln M follows
};

// Puts levels, in the order of sampling probability and noise multiplier, into bins; a bin's largest noise multiplier
// is at most its least times `widest`.
std::vector<Bin> bins(std::span<const Sampled> levels, double widest);

// Decay of all steps of a bin ("remove" or "add").
class BinTail {
  public:
    BinTail(const Bin& bin, Direction direction, double c, double first_s, double log_inverse);

    // Lower bound on -ln |phi(t)| of the steps' sum for every t >= s.
    double log_decay(double s) const;

  private:
    double count_;
    MovedLineTail tail_;  // of the largest noise multiplier
    double share_;        // of its law in that of any other
};

}  // namespace tightdp::contour
