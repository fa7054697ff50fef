// The lanes that share one setting of a batch, and the memory that they share. docs/theory/contour.md, section 7.
//
// A team has lane(), size(), sync(), and collectives that every lane calls and that return the same bits to all of
// them: sum, largest, smallest, votes. Lanes therefore take the same branches. This header has the team of one, with
// which the host runs what the device runs; the device's team is a warp (runtime/warp_team.cuh).
#pragma once

#include <cstdint>

#include "tightdp/config.hpp"
#include "truncation.hpp"

namespace tightdp::contour {

// Caps of a setting in a batch; a setting over one of them is declined and the caller turns to the CPU's engine.
// Settings of deep learning (sigma in [.5, 10], q in [1e-4, .2]) need 60 to 400 nodes and 40 to 700 abscissae.
inline constexpr long kBatchNodes = 8192;
inline constexpr long kBatchAbscissae = 4096;
inline constexpr long kBatchCells = 512;
inline constexpr long kBatchSamples = 400;

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

// One lane: collectives are the identity.
struct SoloTeam {
    TIGHTDP_HD int lane() const noexcept { return 0; }
    TIGHTDP_HD int size() const noexcept { return 1; }
    TIGHTDP_HD void sync() const noexcept {}
    TIGHTDP_HD double sum(double x) const noexcept { return x; }
    TIGHTDP_HD double largest(double x) const noexcept { return x; }
    TIGHTDP_HD double smallest(double x) const noexcept { return x; }
    // Bit l is lane l's answer.
    TIGHTDP_HD std::uint32_t votes(bool yes) const noexcept { return yes ? 1u : 0u; }
};

TIGHTDP_HD inline double larger(double a, double b) noexcept { return a < b ? b : a; }
TIGHTDP_HD inline double smaller(double a, double b) noexcept { return b < a ? b : a; }
TIGHTDP_HD inline double clamped(double x, double low, double high) noexcept { return smaller(larger(x, low), high); }

}  // namespace tightdp::contour
