// Decay of one sampled Gaussian's |M(c + is) / M(c)|, by a minorant of its tilted distribution. Formulas:
// minorant.hpp; the twin for a device: batch_minorant_tail.hpp. docs/theory/contour.md, sections 3.2 to 3.5.
#pragma once

#include <vector>

#include "contour/mgf/sampled_mgf.hpp"
#include "minorant.hpp"

namespace tightdp::contour {

class MinorantTail {
  public:
    // On the nodes that were placed. Cells follow the mass down to the resolution, relative to 1.
    MinorantTail(SampledMgf& mgf, double c, double resolution);

    // Adds samples. They take most of the time, and pay where |phi| itself must be small, not |phi|^count.
    void sample();

    // Lower bound on -ln |phi(s)| for every s in [s_low, s_high]; s_high = inf is allowed.
    double log_decay(double s_low, double s_high) const;

  private:
    void build_cells(const SampledMgf& mgf, const NodeGrid& grid, double c, double sum);
    void build_replaced_cells(const SampledMgf& mgf, const NodeGrid& grid, double c, double total);

    std::vector<Cell> cells_;
    double variation_ = HUGE_VAL;  // total, of the density
    std::vector<double> sampled_;
    double spacing_ = 0;  // of the samples
};

}  // namespace tightdp::contour
