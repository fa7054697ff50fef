#include "grid_compose.hpp"

#include <algorithm>
#include <cmath>

#include "tightdp/aligned.hpp"
#include "tightdp/fft/real_fft.hpp"

namespace tightdp::grid {
namespace {

constexpr double u = kUnitRoundoff;
// e^x underflows to zero in grid_tilt below e^-708: so much may be missing at each point.
constexpr double kUnseen = 1e-300;

struct Circle {
    AlignedArray x;
    double norm1 = 0, norm2 = 0;
};

// The weights scaled to a sum just under 1 and wound round a circle of n points; point i lands at i mod n.
Circle wind(const Weights& weights, double scale, std::size_t n) {
    Circle c{AlignedArray::zeroed(n)};
    const std::size_t mask = n - 1;
    auto at = static_cast<std::size_t>(weights.first) & mask;
    for (std::size_t i = 0; i < weights.w.size();) {
        const std::size_t run = std::min(n - at, weights.w.size() - i);
        for (std::size_t k = 0; k < run; ++k) c.x[at + k] += weights.w[i + k] * scale;
        i += run;
        at = 0;
    }
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
        sum += c.x[i];
        squares += c.x[i] * c.x[i];
    }
    const double more = 1 + 2 * u * static_cast<double>(n);
    c.norm1 = sum * more;
    c.norm2 = std::sqrt(squares) * more;
    return c;
}

// |z^{k-1}|_2 / sqrt n over all frequencies, for the true or the computed spectrum z, whichever is larger at each.
double spread_of_power(const RealFft& plan, const double* spectrum, double power) {
    const double kappa = plan.rounding_bound(), exponent = 2 * (power - 1);
    const auto term = [&](double re, double im) { return std::pow(std::sqrt(re * re + im * im) + kappa, exponent); };
    double total = term(spectrum[0], 0) + term(spectrum[1], 0);
    for (std::size_t m = plan.size(); m >= 4; m /= 2) {
        double sum = 0;  // one of each conjugate pair
        for (std::size_t i = m / 2; i < 3 * m / 4; ++i) sum += term(spectrum[i], spectrum[i + m / 4]);
        total += 2 * sum;
    }
    const auto n = static_cast<double>(plan.size());
    return std::sqrt(total / n) * (1 + u * n + 8 * u * power);
}

double sum_of(const std::vector<double>& w) {
    double blocks = 0;
    for (std::size_t from = 0; from < w.size(); from += 256) {
        double sum = 0;
        for (std::size_t i = from; i < std::min(from + 256, w.size()); ++i) sum += w[i];
        blocks += sum;
    }
    return blocks;
}

}  // namespace

Inexact convolve(const std::vector<Factor>& factors, std::int64_t first, std::size_t n) {
    const auto plan = RealFft::plan(n);
    const double kappa = plan->rounding_bound(), root_n = std::sqrt(static_cast<double>(n));
    AlignedArray product;
    Inexact out;
    double growth = 0, relative = 0;
    for (const Factor& f : factors) {
        const Weights& w = f.law->w;
        const double sum = sum_of(w.w);
        if (!(sum > 0 && sum < HUGE_VAL)) {  // an empty lower law, or a tilt beyond what doubles hold
            out = {};
            out.w = {first, std::vector<double>(n), 0};
            out.error1 = HUGE_VAL;
            return out;
        }
        // Under 1 by more than the transform and the sum itself err.
        const double scale = (1 - 4 * kappa - (2048 + static_cast<double>(w.w.size()) / 64) * u) / sum;
        Circle circle = wind(w, scale, n);
        out.w.log_scale += f.power * (w.log_scale - std::log(scale));
        out.log_error += f.power * (f.law->log_error + 4 * u * (std::abs(w.log_scale) + std::abs(std::log(scale)))) +
                         2 * u * std::abs(out.w.log_scale);
        // Scaling and winding round each point; so does what was too small to be seen.
        const double span = std::max(f.law->span, static_cast<double>(w.w.size()));
        const double folds = std::ceil(span / static_cast<double>(n));
        const double e1 = f.law->error1 * scale * (1 + 8 * u) + (2 + folds) * u * circle.norm1 +
                          kUnseen * scale * static_cast<double>(w.w.size());
        const double e2 = f.law->error2 * scale * (1 + 8 * u) * std::sqrt(folds);
        growth += f.power * (e1 + root_n * e2);
        out.error1 += f.power * e1;
        relative += RealFft::power_bound(static_cast<std::uint64_t>(f.power)) + 4 * u;

        AlignedArray& spectrum = circle.x;
        plan->forward(spectrum.data(), spectrum.data());
        // What the transform errs goes through the k - 1 other factors (docs/theory/fft.md, Corollary).
        double passed = circle.norm2;
        if (f.power > 1) passed = std::min(passed, spread_of_power(*plan, spectrum.data(), f.power));
        out.error2 += f.power * (e2 + kappa * passed);
        if (f.power > 1) plan->power(spectrum.data(), static_cast<std::uint64_t>(f.power), spectrum.data());
        if (!product.size())
            product = std::move(spectrum);
        else
            plan->multiply(product.data(), spectrum.data(), product.data());
    }
    plan->inverse(product.data(), product.data());

    double squares = 0;
    const auto start = static_cast<std::size_t>(first) & (n - 1);
    out.w.first = first;
    out.w.w.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        const double y = product[(start + i) & (n - 1)];
        squares += y * y;
        out.w.w[i] = std::max(0.0, y);
    }
    const double norm2 = std::sqrt(squares) * (1 + u * static_cast<double>(n));
    const double more = growth < 2 && relative < 0.005 ? std::exp(growth) * (1 + 1e-9) : HUGE_VAL;
    out.error2 = more * out.error2 * (1 + 1e-9) + (relative + kappa) * 1.01 * norm2 + root_n * 0x1p-440;
    out.error1 = more * out.error1 * (1 + 1e-9);
    out.span = static_cast<double>(n);
    return out;
}

void trim(Inexact& law) {
    std::vector<double>& w = law.w.w;
    const double noise = 4 * law.error2 / std::sqrt(static_cast<double>(w.size()));
    std::size_t from = 0, to = w.size();
    double lost = 0;
    while (from + 1 < to && w[from] < noise) lost += w[from] * w[from], ++from;
    while (to > from + 1 && w[to - 1] < noise) --to, lost += w[to] * w[to];
    law.error2 += std::sqrt(lost) * (1 + u * static_cast<double>(w.size()));
    w.erase(w.begin() + static_cast<std::ptrdiff_t>(to), w.end());
    w.erase(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(from));
    law.w.first += static_cast<std::int64_t>(from);
}

double log_moment(const std::vector<Factor>& factors, double further, double h) {
    double log = 0, size = 0;
    for (const Factor& f : factors) {
        const double one = log_moment(f.law->w, further, h), shift = further * h * static_cast<double>(f.law->w.first);
        log += f.power * (one + shift + f.law->w.log_scale + f.law->log_error);
        size += f.power * (std::abs(one) + std::abs(shift) + std::abs(f.law->w.log_scale));
    }
    return log + 8 * u * size;
}

Extent extent(const std::vector<Factor>& factors) {
    Extent e{0, 0};
    for (const Factor& f : factors) {
        e.least += f.power * static_cast<double>(f.law->w.first);
        e.most += f.power * (static_cast<double>(f.law->w.first) + static_cast<double>(f.law->w.w.size()) - 1);
    }
    return e;
}

}  // namespace tightdp::grid
