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

// ln sum w_i e^{further h (i - first)}, rounded up.
double log_moment(const Weights& weights, double further, double h) {
    constexpr std::size_t kBlock = 64;
    const double ratio = std::exp(further * h);
    double log_sum = -HUGE_VAL;
    for (std::size_t from = 0; from < weights.w.size(); from += kBlock) {
        const std::size_t to = std::min(from + kBlock, weights.w.size());
        double sum = 0;
        for (std::size_t i = to; i-- > from;) sum = sum * ratio + weights.w[i];
        if (!(sum > 0)) continue;
        const double term = std::log(sum) + further * h * static_cast<double>(from);
        const double top = std::max(log_sum, term);
        log_sum = top + std::log1p(std::exp(std::min(log_sum, term) - top));
    }
    // Horner's 64 steps, the ratio to the 64th power, and one addition a block.
    const double blocks = static_cast<double>(weights.w.size() / kBlock + 1);
    const double size = std::abs(further) * h * static_cast<double>(weights.w.size());
    return log_sum + (300 + 130 * std::abs(further) * h + 4 * blocks + 4 * size + 4 * std::abs(log_sum)) * u;
}

struct Circle {
    AlignedArray x;
    double norm1 = 0, norm2 = 0;
};

// The weights scaled to a sum just under 1 and wound round a circle of n points; point i lands at i mod n.
Circle wind(const Weights& weights, double scale, std::size_t n) {
    Circle c{AlignedArray::zeroed(n)};
    const std::size_t mask = n - 1;
    const auto start = static_cast<std::size_t>(weights.first) & mask;
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < weights.w.size(); ++i) c.x[(start + i) & mask] += weights.w[i] * scale;
    for (std::size_t i = 0; i < n; ++i) {
        sum += c.x[i];
        squares += c.x[i] * c.x[i];
    }
    const double more = 1 + 2 * u * static_cast<double>(n);
    c.norm1 = sum * more;
    c.norm2 = std::sqrt(squares) * more;
    return c;
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

Inexact compose(const std::vector<Factor>& factors, std::int64_t first, std::size_t n, double h, double further_right,
                double further_left) {
    const auto plan = RealFft::plan(n);
    const double kappa = plan->rounding_bound(), root_n = std::sqrt(static_cast<double>(n));
    AlignedArray product, power(n);
    Inexact out;
    double right = -further_right * h * (static_cast<double>(first) + static_cast<double>(n));
    double left = further_left * h * (static_cast<double>(first) - 1);
    double exponent_size = std::abs(right) + std::abs(left);
    double growth = 0, relative = 0, least = 0, most = 0;
    for (const Factor& f : factors) {
        const Weights& w = f.law->w;
        const double sum = sum_of(w.w);
        if (!(sum > 0 && sum < HUGE_VAL)) {  // an empty lower law, or a tilt beyond what doubles hold
            out.w = {first, std::vector<double>(n), 0};
            out.error1 = HUGE_VAL;
            return out;
        }
        const double scale = (1 - 4 * kappa) / sum, log_scale = w.log_scale - std::log(scale);
        Circle circle = wind(w, scale, n);
        out.w.log_scale += f.power * log_scale;
        out.log_error += f.power * (f.law->log_error + 4 * u * (std::abs(w.log_scale) + std::abs(std::log(scale))));
        // Scaling and winding round each point; so does what was too small to be seen.
        const double wraps = static_cast<double>(w.w.size() / n + 2);
        const double e1 = f.law->error1 * scale * (1 + 8 * u) + (1 + wraps) * u * circle.norm1 + kUnseen * static_cast<double>(w.w.size());
        const double e2 = f.law->error2 * scale * (1 + 8 * u) * std::sqrt(wraps);
        growth += f.power * (e1 + root_n * e2);
        out.error1 += f.power * e1;
        out.error2 += f.power * (e2 + kappa * circle.norm2);
        relative += RealFft::power_bound(static_cast<std::uint64_t>(f.power)) + 4 * u;
        // Further moments of what was wound, errors of the input included through their largest possible place.
        const double shift = static_cast<double>(w.first) * h, log_of_scale = std::log(scale);
        const double up = log_moment(w, further_right, h) + log_of_scale, down = log_moment(w, -further_left, h) + log_of_scale;
        right += f.power * (up + further_right * shift);
        left += f.power * (down - further_left * shift);
        exponent_size += f.power * (std::abs(up) + std::abs(down) + (further_right + further_left) * std::abs(shift));
        least += f.power * static_cast<double>(w.first);
        most += f.power * (static_cast<double>(w.first) + static_cast<double>(w.w.size()) - 1);

        AlignedArray& spectrum = circle.x;
        plan->forward(spectrum.data(), spectrum.data());
        AlignedArray& target = product.size() ? power : product;
        if (!target.size()) target = AlignedArray(n);
        if (f.power == 1)
            std::copy_n(spectrum.data(), n, target.data());
        else
            plan->power(spectrum.data(), static_cast<std::uint64_t>(f.power), target.data());
        if (&target == &power) plan->multiply(product.data(), power.data(), product.data());
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
    const double more = growth < 0.5 ? std::exp(growth) * (1 + 1e-9) : HUGE_VAL;
    out.error2 = more * out.error2 * (1 + 1e-9) + (relative + kappa) * 1.01 * norm2 + root_n * 0x1p-440;
    out.error1 = more * out.error1 * (1 + 1e-9);
    // Mass right of the window is missing from it, mass from either side is found in it.
    const double rounding = 8 * u * exponent_size;
    if (most >= static_cast<double>(first) + static_cast<double>(n)) out.error1 += std::exp(right + rounding);
    if (least < static_cast<double>(first)) out.error1 += std::exp(left + rounding);
    return out;
}

}  // namespace tightdp::grid
