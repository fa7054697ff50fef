// How fast |M(c + is) / M(c)| decays: a lower bound on 1 - |phi(s)| for all s in an interval.
// docs/theory/contour.md, section 3.
//
// The tilted law of one privacy loss has at least the mass of a minorant: cells with uniform density. Cells
// are merged into groups that are short beside the wavelength 2 pi / s; a group of mass m, length l and
// variance v loses at least m (1 - sqrt(1 - (4 v / l^2) sin^2(s l / 2))) of its modulus.
#pragma once

#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp::contour {

// Uniform mass on [left, left + length] of the privacy loss.
struct Cell {
    double mass, left, length;
};

// sup of |sin(y)/y| over y >= x > 0: up to pi it falls; then its largest value is at y = 4.4934..., where tan
// y = y, and is 1/sqrt(1 + y^2) = .217234 (contour.md 3.2), rounded up. Beyond 4.6 the envelope 1/x is lower.
TIGHTDP_HD inline double sinc_supremum(double x) noexcept {
    constexpr double side_lobe = 0.21724;
    if (x > 1 / side_lobe) return 1 / x;
    const double main_lobe = x > 1e-4 ? std::sin(x) / x : 1 - x * x / 6 * (1 - 1e-8);
    return main_lobe > side_lobe ? main_lobe : side_lobe;
}

// What a group loses; first, second: its moments about its left end.
TIGHTDP_HD inline double group_decay(double mass, double first, double second, double length, double s) noexcept {
    if (!(mass > 0) || !(length > 0)) return 0;
    const double mean = first / mass;
    // The subtraction cancels at most 1e-13 of length^2.
    const double variance = second / mass - mean * mean - 1e-13 * length * length;
    if (!(variance > 0)) return 0;
    const double sine = std::sin(0.5 * s * length);
    double x = 4 * variance * (sine / length) * (sine / length);
    if (x > 1) x = 1;
    return mass * x / (1 + std::sqrt(1 - x));
}

// Lower bound on 1 - |phi(s)| for every s in [s_low, s_high]; s_high = inf is allowed. Cells run left to
// right. Loses a factor 1 - 1e-6 for its own rounding.
TIGHTDP_HD inline double decay(const Cell* cells, long n, double s_low, double s_high) noexcept {
    constexpr double pi = 3.14159265358979323846;
    double total = 0, mass = 0, first = 0, second = 0, start = 0, end = 0;
    for (long i = 0; i < n; ++i) {
        const Cell& cell = cells[i];
        const double right = cell.left + cell.length;
        if (mass > 0 && (right - start) * s_high > pi) {
            total += group_decay(mass, first, second, end - start, s_low);
            mass = first = second = 0;
        }
        if (cell.length * s_high > pi) {
            total += cell.mass * (1 - sinc_supremum(0.5 * s_low * cell.length));
            continue;
        }
        if (mass == 0) start = cell.left;
        const double d = cell.left - start + 0.5 * cell.length;
        mass += cell.mass;
        first += cell.mass * d;
        second += cell.mass * (d * d + cell.length * cell.length / 12);
        end = right;
    }
    total += group_decay(mass, first, second, end - start, s_low);
    return total * (1 - 1e-6);
}

}  // namespace tightdp::contour
