#include "grid_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace tightdp::grid {
namespace {

// Steps of golden sections: the tilt to a few percent.
constexpr int kGolden = 9;

// A minimiser of f over ln tilt, from a guess; f is unimodal up to the coarseness of the sketch.
template <class F>
Saddle minimise(F f, double guess) {
    constexpr double kLeast = -46, kMost = 60, kStep = 0.7;
    double b = std::clamp(std::log(guess), kLeast + 1, kMost - 1), a = b - kStep, c = b + kStep;
    double fa = f(std::exp(a)), fb = f(std::exp(b)), fc = f(std::exp(c));
    double step = kStep;
    while (!(fb <= fa && fb <= fc)) {
        step *= 1.6;
        if (fa < fb) {
            c = b, fc = fb, b = a, fb = fa;
            if (b <= kLeast) break;
            a = std::max(kLeast, b - step), fa = f(std::exp(a));
        } else if (fc < fb) {
            a = b, fa = fb, b = c, fb = fc;
            if (b >= kMost) break;
            c = std::min(kMost, b + step), fc = f(std::exp(c));
        } else {
            break;  // not a number on a side
        }
    }
    for (int i = 0; i < kGolden; ++i) {
        const bool left = b - a > c - b;
        const double d = left ? b - 0.382 * (b - a) : b + 0.382 * (c - b), fd = f(std::exp(d));
        if (fd < fb) {
            (left ? c : a) = b;
            b = d, fb = fd;
        } else {
            (left ? a : c) = d;
        }
    }
    return {std::exp(b), fb};
}

}  // namespace

double log_kernel(double tilt) { return -tilt * std::log1p(1 / tilt) - std::log1p(tilt); }

Cumulant cumulant(const Law& law, double tilt) {
    const std::vector<Lump>& lumps = law.sketch();
    if (lumps.empty()) return {-HUGE_VAL, 0, 0};
    const double top = std::max(0.0, tilt * (tilt > 0 ? lumps.back().loss : lumps.front().loss));
    double sum = 0, first = 0, second = 0, value;
    if (top < 600) {
        double less = -law.infinity, total = 0;
        for (const Lump& l : lumps) {
            const double grown = l.mass * std::expm1(tilt * l.loss), w = l.mass + grown;
            less += grown;
            total += l.mass;
            sum += w;
            first += w * l.loss;
            second += w * l.loss * l.loss;
        }
        // The masses of a sketch add up to 1 but for roundings, which a cumulant near zero would drown in.
        value = std::abs(less) < 0.5 ? std::log1p(less) : std::log(sum);
    } else {
        double peak = -HUGE_VAL;
        for (const Lump& l : lumps) peak = std::max(peak, std::log(l.mass) + tilt * l.loss);
        for (const Lump& l : lumps) {
            const double w = std::exp(std::log(l.mass) + tilt * l.loss - peak);
            sum += w;
            first += w * l.loss;
            second += w * l.loss * l.loss;
        }
        value = peak + std::log(sum);
    }
    const double mean = first / sum;
    return {value, mean, std::max(0.0, second / sum - mean * mean)};
}

Cumulant cumulant(const std::vector<Part>& parts, double tilt, double share) {
    Cumulant total;
    for (const Part& part : parts) {
        const Cumulant one = cumulant(*part.upper, tilt);
        const double count = part.count * share;
        total.value += count * one.value;
        total.mean += count * one.mean;
        total.variance += count * one.variance;
    }
    return total;
}

Saddle saddle_of_epsilon(const std::vector<Part>& parts, double epsilon) {
    const Cumulant at0 = cumulant(parts, 0);
    const double guess = std::max(1e-3, (epsilon - at0.mean) / (at0.variance + 1e-300));
    return minimise(
        [&](double tilt) { return cumulant(parts, tilt).value + log_kernel(tilt) - tilt * epsilon; },
        std::min(guess, 1e6));
}

Saddle saddle_of_delta(const std::vector<Part>& parts, double log_delta) {
    const Cumulant at0 = cumulant(parts, 0);
    const double guess = std::sqrt((1 - 2 * log_delta) / (at0.variance + 1e-300));
    return minimise(
        [&](double tilt) { return (cumulant(parts, tilt).value + log_kernel(tilt) - log_delta) / tilt; },
        std::min(guess, 1e6));
}

Window window(const std::vector<Part>& parts, double tilt, double log_tail, double share) {
    const Cumulant centre = cumulant(parts, tilt, share);
    const double spread = std::sqrt(centre.variance) + 1e-300;
    Window w{-HUGE_VAL, HUGE_VAL, 0, 0};
    double least = 0, most = 0;
    for (const Part& part : parts) {
        least += part.count * share * part.upper->sketch().front().loss;
        most += part.count * share * part.upper->sketch().back().loss;
    }
    for (double step = std::sqrt(2 * log_tail) / spread / 64; step < 64 * std::sqrt(2 * log_tail) / spread; step *= 1.5) {
        const double right = (cumulant(parts, tilt + step, share).value - centre.value + log_tail) / step;
        if (right < w.right) w.right = right, w.further_right = step;
        const double left = (centre.value - cumulant(parts, tilt - step, share).value - log_tail) / step;
        if (left > w.left) w.left = left, w.further_left = step;
    }
    w.right = std::min(w.right, most);
    w.left = std::max(w.left, least);
    if (!(w.left < w.right)) w.left = std::min(w.left, centre.mean), w.right = std::max(w.right, centre.mean);
    return w;
}

Range range(const Law& law, double tilt, double log_left, double log_right) {
    const std::vector<Lump>& lumps = law.sketch();
    const Cumulant centre = cumulant(law, tilt);
    const std::size_t n = lumps.size();
    std::size_t from = 0, to = n - 1;
    for (double below = 0; from + 1 < n; ++from) {
        below += lumps[from].mass;
        if (std::log(below) + tilt * lumps[from + 1].loss - centre.value > -log_left) break;
    }
    for (double above = 0; to > from; --to) {
        above += lumps[to].mass;
        if (std::log(above) > -log_right) break;
    }
    // The next lumps out, and what a lump at the end of the support stands for.
    const double left_gap = n > 1 ? lumps[1].loss - lumps[0].loss : 0, right_gap = n > 1 ? lumps[n - 1].loss - lumps[n - 2].loss : 0;
    return {from > 0 ? lumps[from - 1].loss : lumps[0].loss - (law.density ? left_gap : 0),
            to + 1 < n ? lumps[to + 1].loss : lumps[n - 1].loss + (law.density ? right_gap : 0)};
}

}  // namespace tightdp::grid
