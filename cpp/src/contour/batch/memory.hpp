// The memory of a team of a device that inverts one setting of a batch.
#pragma once

#include <cstdint>

#include "contour/tail_bound/minorant.hpp"

namespace tightdp::contour {

// Caps of a setting in a batch; a setting over one of them is declined and the caller turns to the CPU's
// engine. Settings of deep learning (sigma in [.5, 10], q in [1e-4, .2]) need 60 to 400 nodes and 40 to 700
// abscissae.
inline constexpr std::int64_t kBatchNodes = 8192;
inline constexpr std::int64_t kBatchAbscissae = 4096;
inline constexpr std::int64_t kBatchCells = 512;
inline constexpr std::int64_t kBatchSamples = 400;

// One team's scratch memory.
struct BatchMemory {
    double loss[kBatchNodes], posterior[kBatchNodes], weights[kBatchNodes];
    // e^{i size step y} - 1 of each node: the rotation from one abscissa of a lane to its next.
    double turn_re[kBatchNodes], turn_im[kBatchNodes];
    Cell cells[kBatchCells];
    double cell_at[kBatchCells], cell_mass[kBatchCells], cell_density[kBatchCells];
    double sampled[kBatchSamples];
    // Abscissae 1.. and then 0..: first xi, then h and the bounds on its rule and rounding errors.
    double re[kBatchAbscissae + 1], im[kBatchAbscissae + 1], rule[kBatchAbscissae + 1], round[kBatchAbscissae + 1];
};

}  // namespace tightdp::contour
