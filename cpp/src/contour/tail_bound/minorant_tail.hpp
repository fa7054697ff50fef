// Bounds on the decay of phi(s) = M(c + is) / M(c) for one Gaussian mechanism on a Poisson sample. M is the moment
// generating function of the privacy loss y. The bounds use a minorant of the tilted distribution of y, a density that
// lies below it. The tilting factor is e^{cy} / M(c) (docs/theory/contour.md, sections 3.2 to 3.5). The formulas are in
// minorant.hpp. batch_minorant_tail.hpp does the same on a device.
#pragma once

#include <vector>

#include "contour/mgf/sampled_mgf.hpp"
#include "minorant.hpp"

namespace tightdp::contour {

class MinorantTail {
  public:
    // Uses the nodes that mgf.place_nodes() placed last. The cells of the minorant cover all nodes whose fraction of
    // the mass is at least `resolution`.
    MinorantTail(SampledMgf& mgf, double c, double resolution);

    // Computes samples of the decay. Samples take most of the time. They help only for small counts, for which a small
    // |phi|^count needs a small |phi|.
    void sample_minorant_decay();

    // Returns a lower bound on -ln |phi(s)| for every s in [s_low, s_high], where s_high = inf is allowed.
    double log_decay(double s_low, double s_high) const;

  private:
    void build_minorant_cells(const SampledMgf& mgf, const NodeGrid& grid, double c, double sum);
    void build_replace_minorant_cells(const SampledMgf& mgf, const NodeGrid& grid, double c, double total);

    std::vector<Cell> cells_;
    double variation_ = HUGE_VAL;  // bound on the total variation of the density, the sum of its rises and falls
    std::vector<double> sampled_;
    double spacing_ = 0;  // distance between samples
};

}  // namespace tightdp::contour
