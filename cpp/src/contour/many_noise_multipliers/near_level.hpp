// Bounds on M at complex noise multipliers sigma near a real sigma_0 with a known M, and on the error of interpolating
// ln M (docs/theory/contour.md, section 11). M is the moment generating function of the privacy loss of one step. v is
// sigma^2, and v_0 is sigma_0^2.
//
// M at a complex v is compared with M at v_0 (section 11.1):
//     M(z; v) = G (M(z; v_0) + M(c; v_0) y)   with |y| <= D.
// Here z = c + is is the argument of M, and G and y are complex numbers. The bounds on |y| and on |ln G| are computed
// from N, the number by which a tilted density is normalised (log_mass.hpp), as a function of v. N is taken at v_0 (1 -
// r), v_0 and v_0 (1 + r), where r is the radius. Xi measures how much N bends between these points, and tau measures
// how fast ln N falls.
#pragma once

#include <algorithm>
#include <cmath>

#include "log_mass.hpp"

namespace tightdp::contour {

// The set of complex v = sigma^2 with |Re v/v_0 - 1| <= real and |Im v|/v_0 <= imaginary.
struct Box {
    double real, imaginary;
};

// Returns the box that contains sigma^2 for all sigma with left <= Re sigma <= right and |Im sigma| <= height.
inline Box noise_box(double left, double right, double height, double sigma_0) {
    const double v = sigma_0 * sigma_0, most = 1 + 1e-9;
    return {std::max(1 - (left * left - height * height) / v, right * right / v - 1) * most,
            2 * right * height / v * most};
}

// Returns the largest height of an ellipse between the real parts `left` and `right`. `middle` is the middle between
// its foci, `half` half their distance, and rho the sum of its half-axes in units of `half`.
inline double noise_ellipse_height_between(double middle, double half, double rho, double left, double right) {
    const double a = half * 0.5 * (rho + 1 / rho), b = half * 0.5 * (rho - 1 / rho);
    const double nearest = (std::clamp(middle, left, right) - middle) / a;
    return b * (1 + 1e-9) * std::sqrt(std::max(0.0, 1 - nearest * nearest) + 1e-12);
}

// Returns the largest error of an interpolation of a function f with `nodes` nodes, relative to the largest |f| on the
// ellipse with this rho (contour.md, section 11.3).
inline double interpolation_error(double rho, double nodes) {
    const double a = std::sqrt(rho * rho + 1 / (rho * rho)), power = std::pow(rho, nodes);
    return 1.7 * 2 * rho * a / ((rho - 1) * (rho - 1) * (power - 1 / power)) * (1 + 1e-9);
}

// Bounds on M at the noise multipliers sigma with |sigma^2/v_0 - 1| up to about `radius`.
struct NearLevel {
    double v, radius;       // v_0 and r
    double xi = HUGE_VAL;   // 2 (sqrt(N(v_0 (1 - r)) N(v_0 (1 + r))) / N(v_0) - 1), rounded up
    double tau = HUGE_VAL;  // ln(N(v_0 (1 - r)) / N(v_0 (1 + r))) / r

    NearLevel(const Pair& pair, double c, double r) : v(pair.sigma * pair.sigma), radius(r) {
        if (!(r > 0 && r < 0.95)) return;
        // The noise multipliers are rounded down. This makes the normalisation N(sigma) larger, because N falls as
        // sigma grows. So Xi is an upper bound.
        const LogMass here = log_mass(pair, c);
        const auto at = [&](double part) {
            return log_mass({pair.sigma * std::sqrt(part) * (1 - 1e-15), pair.q, pair.direction}, c);
        };
        const LogMass less_noise = at(1 - r), more_noise = at(1 + r);
        const double most = 2 * std::expm1(0.5 * (less_noise.upper - here.lower + (more_noise.upper - here.lower)));
        if (!(most >= 0 && most < 4)) return;
        xi = most * (1 + 1e-9);
        tau = (less_noise.upper - more_noise.lower) / r;
    }

    // Returns the bound D for all v of a box.
    double bound_near_level_distance(Box box) const {
        if (!(box.real <= radius)) return HUGE_VAL;
        const double part = box.real / radius, smaller = part * part * xi;
        return (smaller - std::expm1(-std::sqrt(smaller)) + box.imaginary * std::sqrt(xi) / radius) * (1 + 1e-9);
    }
    // Returns an upper bound on |ln G| for all v of a box.
    double bound_near_level_log_factor(Box box) const {
        const double far = box.real + box.imaginary, least = 1 - box.real;
        return 0.5 * (std::max(-std::log(least), std::log1p(far)) + 1.6) + 0.125 * far / (v * least) +
               0.5 * far * std::fabs(tau);
    }
};

}  // namespace tightdp::contour
