// Teams of lanes (threads) that compute one result together, such as a curve (docs/theory/contour.md, section 7) or the
// norm of a row.
//
// A team has lane(), size(), sync(), and the collective functions sum, largest, smallest and votes. All lanes must call
// a collective function together, and all get the same bits. All lanes therefore take the same branches. This header
// has the team of one lane, which the host uses. A team on a device is a warp or a part of one (runtime/warp_team.cuh).
#pragma once

#include <cstdint>

#include "tightdp/config.hpp"

namespace tightdp::contour {

// A team of one lane, whose collective functions return their arguments.
struct SoloTeam {
    TIGHTDP_HD int lane() const noexcept { return 0; }
    TIGHTDP_HD int size() const noexcept { return 1; }
    TIGHTDP_HD void sync() const noexcept {}
    TIGHTDP_HD double sum(double x) const noexcept { return x; }
    TIGHTDP_HD double largest(double x) const noexcept { return x; }
    TIGHTDP_HD double smallest(double x) const noexcept { return x; }
    // Returns a number whose bit l is the vote of lane l.
    TIGHTDP_HD std::uint32_t votes(bool yes) const noexcept { return yes ? 1u : 0u; }
};

}  // namespace tightdp::contour
