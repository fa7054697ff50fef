// A composed law as a privacy profile: delta at the points of its lattice, epsilon by inversion between them
// (docs/theory/grid.md, section 5.4).
#pragma once

#include <vector>

#include "grid_compose.hpp"

namespace tightdp::grid {

// Curve of one side. In units of e^{log_scale - tilt x_j}: delta(x_j) is within `error` and a factor 1 +- rounding of
// value[j], and what the other side of the truth could differ by is in infinity.
struct Profile {
    double anchor, h, tilt, log_scale;
    std::int64_t first;
    std::vector<double> value;
    double wrapping, rounding;  // absolute errors in those units, by cause
    double relative;            // relative error of value and of the units

    Profile(const Inexact& law, double anchor, double h, double tilt);

    double at(std::size_t j) const { return anchor + static_cast<double>(first + static_cast<std::int64_t>(j)) * h; }
    double error() const { return wrapping + rounding; }

    // Upper or lower bound on delta(x_j) - infinity; a lower one may be negative.
    double bound(std::size_t j, bool upper) const;

    // Upper or lower bound at any epsilon within the lattice, by the chord in e^epsilon.
    double bound_at(double epsilon, bool upper) const;

    // Bound on the epsilon at which delta - infinity falls to `target`: +-infinity where the lattice does not tell.
    double invert(double target, bool upper) const;
};

}  // namespace tightdp::grid
