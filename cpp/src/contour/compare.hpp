// Replacements of std::min, std::max and std::clamp that also compile for a device.
#pragma once

#include "tightdp/config.hpp"

namespace tightdp::contour {

TIGHTDP_HD inline double larger(double a, double b) noexcept {
    return a < b ? b : a;
}
TIGHTDP_HD inline double smaller(double a, double b) noexcept {
    return b < a ? b : a;
}
TIGHTDP_HD inline double clamped(double x, double low, double high) noexcept {
    return smaller(larger(x, low), high);
}

}  // namespace tightdp::contour
