// The lanes that share one curve. docs/theory/contour.md, section 7.
//
// A team has lane(), size(), sync(), and collectives that every lane calls and that return the same bits to
// all of them: sum, largest, smallest, votes. Lanes therefore take the same branches. This header has the
// team of one, that of the host; a device's team is a warp (runtime/warp_team.cuh).
#pragma once

#include <cstdint>

#include "tightdp/config.hpp"

namespace tightdp::contour {

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

}  // namespace tightdp::contour
