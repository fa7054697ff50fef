// Replacements of std::min, std::max and std::clamp that also compile for a device.
#pragma once

#include "tightdp/config.hpp"

namespace tightdp::contour {

TIGHTDP_HD inline double max_value(double a, double b) noexcept {
    return a < b ? b : a;
}
TIGHTDP_HD inline double min_value(double a, double b) noexcept {
    return b < a ? b : a;
}
TIGHTDP_HD inline double clamp_value(double x, double low, double high) noexcept {
    return min_value(max_value(x, low), high);
}

}  // namespace tightdp::contour
