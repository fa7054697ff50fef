// The memory of a team of threads ("lanes") on a device. A team computes one setting (sigma, q, steps) of a batch.
#pragma once

#include <cstdint>

#include "contour/tail_bound/minorant.hpp"

namespace tightdp::contour {

// Limits of a setting in a batch. A setting that exceeds a limit is declined, and the caller uses the CPU's engine.
// Settings of deep learning (sigma in [.5, 10], q in [1e-4, .2]) need 60 to 400 nodes of the Gaussian variable. They
// need 40 to 700 abscissae c + is, at which the moment generating function M is computed.
inline constexpr std::int64_t kBatchNodes = 8192;
inline constexpr std::int64_t kBatchAbscissae = 4096;
// Numbers of cells and of samples by which minorant.hpp bounds the decay of |M(c + is)/M(c)|.
inline constexpr std::int64_t kBatchCells = 512;
inline constexpr std::int64_t kBatchSamples = 400;

// The scratch memory of one team.
struct BatchMemory {
    double loss[kBatchNodes], posterior[kBatchNodes], weights[kBatchNodes];
    // e^{i size step y} - 1 for each node, where y is the node's loss, `size` is the number of lanes, and `step` is the
    // distance of neighbouring abscissae. The lanes take the abscissae in turn, so successive abscissae of one lane are
    // size * step apart.
    double turn_re[kBatchNodes], turn_im[kBatchNodes];
    Cell cells[kBatchCells];
    double cell_at[kBatchCells], cell_mass[kBatchCells], cell_density[kBatchCells];
    double sampled[kBatchSamples];
    // Values at the abscissae c + is. First the arrays hold xi = M(c + is)/M(c) - 1 and its rounding error, from index
    // 1 on. Later the arrays hold the Ordinates of trapezoid_sum.hpp with the bounds on their errors, from index 0 on.
    double re[kBatchAbscissae + 1], im[kBatchAbscissae + 1], rule[kBatchAbscissae + 1], round[kBatchAbscissae + 1];
};

}  // namespace tightdp::contour
