// Bounds from the moments E[e^{cY}] of privacy losses Y (docs/theory/prv.md, section 3).
#include "moment_bounds.hpp"

#include <algorithm>
#include <cmath>

#include "contour/inversion/aliasing.hpp"
#include "tightdp/special/logaddexp.hpp"

namespace tightdp::prv {
namespace {

// Smallest and largest exponent c of the moments E[e^{cY}] that is tried. At a smaller c, a moment bound adds nothing
// to the bounds from the support and from epsilon >= 0. A larger c would be best only for a distribution that is so
// narrow that its support gives a better bound.
constexpr double kLeastAbscissa = 0x1p-20, kMostAbscissa = 0x1p40;

// Factor that covers the relative error of each closed form, which is at most 64 unit roundoffs.
constexpr double kSlack = 1 + 64 * kUnitRoundoff;

// Each prv_cgf() returns ln E[e^{cY}], the cumulant generating function of one loss Y at c.
double prv_cgf(const GaussianLaw& law, double c) {
    const double mu = law.mu * (1 + law.spread);
    return 0.5 * mu * mu * c * (c + 1);
}

// E[e^{cY}] = e^{c mu}/2 + e^{-(c+1) mu}/2 + (e^{c mu} - e^{-(c+1) mu}) / (2 (2c + 1)).
double prv_cgf(const LaplaceLaw& law, double c) {
    const double w = 0.5 + 0.5 / (2 * c + 1), v = 0.5 - 0.5 / (2 * c + 1);
    return logaddexp(std::log(w) + c * law.mu, (v > 0 ? std::log(v) : -HUGE_VAL) - (c + 1) * law.mu) +
           16 * kUnitRoundoff * (1 + c * law.mu);
}

double prv_cgf(const PureLaw& law, double c) {
    const double odds = std::log1p(std::exp(-law.eps));
    return logaddexp(c * law.eps - odds, -(c + 1) * law.eps - odds) + 16 * kUnitRoundoff * (1 + c * law.eps);
}

// This overload is never called, because composed_cgf() takes ln E[e^{cY}] of these distributions from `sampled_`.
double prv_cgf(const SampledLaw&, double) {
    return HUGE_VAL;
}

}  // namespace

MomentBounds::MomentBounds(std::vector<Run> parts) : parts_(std::move(parts)) {
    for (const Run& part : parts_) {
        auto& nodes = sampled_.emplace_back();
        if (const auto* law = std::get_if<SampledLaw>(&part.law))
            nodes.emplace(contour::Pair{law->sigma, law->q, contour::contour_composition_direction(law->add)},
                          static_cast<double>(part.count));
    }
}

bool MomentBounds::place_nodes(double c_most) {
    if (c_most <= c_most_) return true;
    double count = 1;
    for (const Run& part : parts_) count += static_cast<double>(part.count);
    for (auto& nodes : sampled_)
        if (nodes && !nodes->place_nodes(2 * c_most, 0, std::log(1e4 * count), contour::kMaxGuideNodes)) return false;
    c_most_ = 2 * c_most;
    return true;
}

double MomentBounds::composed_cgf(double c) {
    if (!place_nodes(c)) return HUGE_VAL;
    double sum = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const double one = sampled_[i]
                               ? sampled_[i]->log_mgf(c).upper()
                               : static_cast<double>(parts_[i].count) *
                                     std::visit([c](const auto& law) { return prv_cgf(law, c); }, parts_[i].law);
        sum += one * (one > 0 ? kSlack : 1);
    }
    return sum;
}

// Searches for the minimum of an objective over c. Every value of an objective is a valid bound, wherever the search
// stops. Each objective falls and then rises in c. Doubling c brackets the minimum, and golden-section search in ln c
// narrows the bracket.
template <class F>
double MomentBounds::minimize_prv_moment_bound(F objective) {
    double c = 1, best = objective(c), factor = 2;
    double next = objective(c * factor);
    if (!(next < best)) {
        factor = 0.5;
        next = objective(c * factor);
    }
    while (next < best && c > kLeastAbscissa && c < kMostAbscissa) {
        best = next;
        c *= factor;
        next = objective(c * factor);
    }
    constexpr double golden = 0.6180339887498949;
    double a = std::log(c) - std::log(2.0), b = std::log(c) + std::log(2.0);
    double x = b - golden * (b - a), y = a + golden * (b - a), fx = objective(std::exp(x)),
           fy = objective(std::exp(y));
    for (int i = 0; i < 9; ++i) {  // c is then known within 1%, and the minimum within about 1e-4 of itself
        best = std::min({best, fx, fy});
        if (fx < fy) {
            b = y, y = x, fy = fx;
            fx = objective(std::exp(x = b - golden * (b - a)));
        } else {
            a = x, x = y, fx = fy;
            fy = objective(std::exp(y = a + golden * (b - a)));
        }
    }
    return std::min({best, fx, fy});
}

double MomentBounds::upper_quantile(double log_inverse) {
    return minimize_prv_moment_bound([&](double c) { return (composed_cgf(c) + log_inverse) / c * (1 + 1e-14); });
}

double MomentBounds::epsilon(double log_inverse) {
    return minimize_prv_moment_bound([&](double c) {
        const double value = (composed_cgf(c) + log_inverse + contour::log_aliasing_kappa(c) * (1 - 1e-14)) / c;
        return value + 1e-14 * std::fabs(value);
    });
}

double MomentBounds::log_delta(double eps) {
    return minimize_prv_moment_bound([&](double c) {
        const double k = composed_cgf(c), shrink = contour::log_aliasing_kappa(c) * (1 - 1e-14);
        return k - c * eps + shrink + 1e-14 * (std::fabs(k) + c * std::fabs(eps));
    });
}

double MomentBounds::reversed_quantile(double log_inverse) {
    return std::min(log_inverse, minimize_prv_moment_bound([&](double c) {
                        return (composed_cgf(c) + log_inverse) / (c + 1) * (1 + 1e-14);
                    }));
}

}  // namespace tightdp::prv
