// Bounds on M at complex noise multipliers by a real one nearby, and on the error of interpolating ln M: the formulas
// of interpolation.cpp. docs/theory/contour.md, section 11.
#pragma once

#include <algorithm>
#include <cmath>

#include "log_mass.hpp"

namespace tightdp::contour {

// The set of v = sigma^2 with |Re v/v_0 - 1| and |Im v|/v_0 at most these.
struct Box {
    double real, imaginary;
};

// The box of the cell left <= Re sigma <= right about sigma_0, where |Im sigma| <= height.
inline Box box_of(double left, double right, double height, double sigma_0) {
    const double v = sigma_0 * sigma_0, most = 1 + 1e-9;
    return {std::max(1 - (left * left - height * height) / v, right * right / v - 1) * most,
            2 * right * height / v * most};
}

// Height, between left and right, of the ellipse with this middle between its foci, half their distance and sum of
// half-axes rho, in units of half.
inline double height_between(double middle, double half, double rho, double left, double right) {
    const double a = half * 0.5 * (rho + 1 / rho), b = half * 0.5 * (rho - 1 / rho);
    const double nearest = (std::clamp(middle, left, right) - middle) / a;
    return b * (1 + 1e-9) * std::sqrt(std::max(0.0, 1 - nearest * nearest) + 1e-12);
}

// Largest error of interpolation at so many nodes, relative to the largest |f| on the ellipse (11.3).
inline double interpolation_error(double rho, double nodes) {
    const double a = std::sqrt(rho * rho + 1 / (rho * rho)), power = std::pow(rho, nodes);
    return 1.7 * 2 * rho * a / ((rho - 1) * (rho - 1) * (power - 1 / power)) * (1 + 1e-9);
}

// Bounds for distributions near that of sigma_0 (11.1): Xi of a radius R, and tau.
struct NearLevel {
    double v, radius, xi = HUGE_VAL, tau = HUGE_VAL;

    NearLevel(const Pair& pair, double c, double r) : v(pair.sigma * pair.sigma), radius(r) {
        if (!(r > 0 && r < 0.95)) return;
        // Each a little smaller: N falls with sigma, so that Xi is an upper bound.
        const LogMass here = log_mass(pair, c);
        const auto at = [&](double part) {
            return log_mass({pair.sigma * std::sqrt(part) * (1 - 1e-15), pair.q, pair.direction}, c);
        };
        const LogMass loud = at(1 - r), quiet = at(1 + r);
        const double most = 2 * std::expm1(0.5 * (loud.upper - here.lower + (quiet.upper - here.lower)));
        if (!(most >= 0 && most < 4)) return;
        xi = most * (1 + 1e-9);
        tau = (loud.upper - quiet.lower) / r;
    }

    // D
    double apart(Box box) const {
        if (!(box.real <= radius)) return HUGE_VAL;
        const double part = box.real / radius, smaller = part * part * xi;
        return (smaller - std::expm1(-std::sqrt(smaller)) + box.imaginary * std::sqrt(xi) / radius) * (1 + 1e-9);
    }
    // Upper bound on |ln G|.
    double front(Box box) const {
        const double far = box.real + box.imaginary, least = 1 - box.real;
        return 0.5 * (std::max(-std::log(least), std::log1p(far)) + 1.6) + 0.125 * far / (v * least) +
               0.5 * far * std::fabs(tau);
    }
};

}  // namespace tightdp::contour
