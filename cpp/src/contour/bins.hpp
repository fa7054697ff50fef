// Many noise levels in few bins: what guides the choice of the contour, and the decay of all of a bin at once.
// docs/theory/contour.md, section 10.
#pragma once

#include <span>
#include <vector>

#include "engine.hpp"
#include "decay.hpp"

namespace tightdp::contour {

// Parts of one sampling probability with neighbouring noise multipliers.
struct Bin {
    double q, low, high;  // the least and the largest noise multiplier
    double count, members;
    double middle;  // of about the bin's mean cumulant
};

// By sampling probability and noise multiplier.
std::vector<Bin> bins(std::span<const Sampled> parts);

// Decay of each step of a bin ("remove" or "add").
class BinTail {
  public:
    BinTail(const Bin& bin, Pair pair, double c, double first_s, double log_inverse);

    // Lower bound on -ln |phi(t)| of any of them for every t >= s.
    double log_decay(double s) const;

  private:
    Tail tail_;     // of the largest noise multiplier
    double share_;  // of its law in that of any other
};

}  // namespace tightdp::contour
