#include "grid_estimate.hpp"

#include <algorithm>
#include <cmath>

#include "grid_kernels.hpp"

namespace tightdp::grid {
namespace {

// Steps of golden sections: the tilt to a few percent.
constexpr int kGolden = 9;
// Exponents that a window tries, each half of the one before: counted, since a step may be infinite.
constexpr int kHalvings = 10;

// The first minimiser of f over ln tilt, coming from the left of a guess. There may be others: the further one of a law
// with a heavy tail looks at nothing but the point where the tail is cut off.
// `enough` says of a tilt and its value that larger tilts are of no use.
template <class F, class Enough>
Saddle minimise(F f, double guess, Enough enough) {
    constexpr double kLeast = -46, kMost = 80, kStep = 0.7;
    double b = std::clamp(std::log(guess) - 6 * kStep, kLeast, kMost), fb = f(std::exp(b));
    double a = b - kStep, fa = f(std::exp(a)), step = kStep;
    while (fa < fb && a > kLeast) {
        b = a, fb = fa;
        a -= step *= 1.6;
        fa = f(std::exp(a));
    }
    step = kStep;
    double c = b + step, fc = f(std::exp(c));
    while (fc < fb && c < kMost && !enough(std::exp(c), fc)) {
        a = b, fa = fb, b = c, fb = fc;
        c += step *= 1.1;
        fc = f(std::exp(c));
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

Sketches::Sketches(const std::vector<Part>& parts, double log_beyond) {
    for (const Part& part : parts) {
        const Sketch& sketch = part.law->sketch();
        const double beyond = std::exp(log_beyond - std::log(part.count));
        std::size_t size = sketch.size;
        while (size > 1 && sketch.above[size - 1] < beyond) --size;
        if (size < sketch.size) ++size;  // the lattice reaches to the loss of this lump and holds part of it
        // Lumps at the ends of a density stand for something further out.
        const auto gap = [&](std::size_t i) {
            return part.law->density && sketch.size > 1 ? sketch.loss[i + 1] - sketch.loss[i] : 0;
        };
        const double left = sketch.loss[0] - gap(0);
        const double right = sketch.loss[size - 1] + (size == sketch.size ? gap(size < 2 ? 0 : size - 2) : 0);
        cuts_.push_back({&sketch, size, part.count, part.law->infinity, left, right});
    }
}

Cumulant Sketches::cumulant(std::size_t part, double tilt) const {
    const Cut& cut = cuts_[part];
    const Sketch& s = *cut.sketch;
    const double top = std::max(0.0, tilt * (tilt > 0 ? s.loss[cut.size - 1] : s.loss[0]));
    double peak = 0;
    if (top > 600) {
        peak = -HUGE_VAL;
        for (std::size_t i = 0; i < cut.size; ++i) peak = std::max(peak, s.log_mass[i] + tilt * s.loss[i]);
    }
    double sums[4];
    TIGHTDP_SELECT_SIMD(grid_moments)(tilt, peak, s.loss.data(), s.log_mass.data(), s.mass.data(), cut.size, sums);
    // The masses of a sketch add up to 1 but for roundings, which a cumulant near zero would drown in.
    double value = peak + std::log(sums[0]);
    if (peak == 0 && std::abs(sums[3]) < 0.5) {
        const double beyond = cut.size < s.size ? s.above[cut.size] : 0;
        value = std::log1p(sums[3] - cut.infinity - beyond);
    }
    const double mean = sums[1] / sums[0];
    return {value, mean, std::max(0.0, sums[2] / sums[0] - mean * mean)};
}

Cumulant Sketches::cumulant(double tilt, double share) const {
    Cumulant total;
    for (std::size_t j = 0; j < cuts_.size(); ++j) {
        const Cumulant one = cumulant(j, tilt);
        const double count = std::floor(cuts_[j].count * share);
        if (!(count > 0)) continue;
        total.value += count * one.value;
        total.mean += count * one.mean;
        total.variance += count * one.variance;
    }
    return total;
}

double Sketches::least(double share) const {
    double sum = 0;
    for (const Cut& cut : cuts_) sum += std::floor(cut.count * share) * cut.left;
    return sum;
}

double Sketches::most(double share) const {
    double sum = 0;
    for (const Cut& cut : cuts_) sum += std::floor(cut.count * share) * cut.right;
    return sum;
}

Range Sketches::range(std::size_t part, double tilt, double log_left) const {
    const Cut& cut = cuts_[part];
    const Sketch& s = *cut.sketch;
    const Cumulant centre = cumulant(part, tilt);
    std::size_t from = 0;
    for (; from + 1 < cut.size; ++from) {
        const double below = s.above[0] - s.above[from + 1];
        if (std::log(below) + tilt * s.loss[from + 1] - centre.value > -log_left) break;
    }
    return {from > 0 ? s.loss[from - 1] : cut.left, cut.right};
}

Saddle saddle_of_epsilon(const Sketches& sketches, double epsilon) {
    const Cumulant at0 = sketches.cumulant(0);
    const double spread = std::sqrt(at0.variance) + 1e-300;
    const double guess = std::max(1e-3 / spread, (epsilon - at0.mean) / (spread * spread));
    // Near the end of the support ever larger tilts are better; a relative distance of 1e-9 is as near as it gets.
    const double largest = 1e9 / std::max(std::abs(epsilon), spread);
    return minimise([&](double tilt) { return sketches.cumulant(tilt).value + log_kernel(tilt) - tilt * epsilon; },
                    std::min(guess, 40 / spread), [&](double tilt, double) { return tilt > largest; });
}

Saddle saddle_of_delta(const Sketches& sketches, double log_delta, double finest) {
    const double spread = std::sqrt(sketches.cumulant(0).variance) + 1e-300;
    return minimise([&](double tilt) { return (sketches.cumulant(tilt).value + log_kernel(tilt) - log_delta) / tilt; },
                    std::min(std::sqrt(1 - 2 * log_delta), 40.0) / spread,
                    [&](double tilt, double found) { return tilt * std::abs(found) > finest && tilt > 40 / spread; });
}

namespace {

// Standard deviation, not less than a small part of all there is: where all of a law sits in one point.
double deviation(const Cumulant& c, const Sketches& sketches) {
    return std::max(std::sqrt(c.variance), 1e-9 * (sketches.most() - sketches.least())) + 1e-300;
}

}  // namespace

Window window(const Sketches& sketches, double tilt, double log_tail, double share) {
    const Cumulant centre = sketches.cumulant(tilt, share);
    const double normal = std::sqrt(2 * log_tail) / deviation(centre, sketches);
    Window w{-HUGE_VAL, HUGE_VAL, normal, -normal, normal};
    // Twice what suits a normal law, and less where tails are heavier.
    double step = 2 * normal;
    for (int i = 0; i < kHalvings; ++i, step /= 2) {
        const double right = (sketches.cumulant(tilt + step, share).value - centre.value + log_tail) / step;
        if (right < w.right) w.right = right, w.further_right = step;
        const double left = (centre.value - sketches.cumulant(tilt - step, share).value - log_tail) / step;
        if (left > w.left) w.left = left, w.further_left = -step;
    }
    w.right = std::min(w.right, sketches.most(share));
    w.left = std::max(w.left, sketches.least(share));
    if (!(w.left <= w.right)) w.left = std::min(w.left, centre.mean), w.right = std::max(w.right, centre.mean);
    return w;
}

Window window_for(const Sketches& sketches, double tilt, double epsilon, double log_delta, double log_tail) {
    const Cumulant centre = sketches.cumulant(tilt);
    const double normal = std::sqrt(2 * log_tail) / deviation(centre, sketches);
    const double goal = log_tail - log_delta;
    Window w{0, 0, normal, -tilt - 1, normal};
    // What lies beyond epsilon + length wraps to where it counts; what lies beyond `right` is missing.
    double length = sketches.most() - epsilon, right = sketches.most();
    double step = 4 * normal;
    for (int i = 0; i <= kHalvings; ++i, step /= 2) {
        const double s = tilt + step, value = sketches.cumulant(s).value;
        const double far = (value - s * epsilon + goal) / step, plain = (value + goal) / s;
        if (far < length) length = far, w.further_far = step;
        if (plain < right) right = plain, w.further_right = step;
    }
    right = std::max(right, epsilon + 1e-12 * std::abs(epsilon));
    length = std::max(length, 0.0);
    // Left of epsilon nothing is needed if e^{-tilt length} is small enough by itself; else the window begins further
    // left, at the quantile that makes up for the rest.
    const Cumulant at0 = sketches.cumulant(0);
    const double around = std::sqrt(2 * goal) / deviation(at0, sketches);
    double values[10], steps[10];
    int count = 0;
    for (double step = 2 * around; count < 10; step /= 2) {
        steps[count] = step;
        values[count++] = sketches.cumulant(-step).value;
    }
    const auto left_for = [&](double tried) {
        const double rest = goal - tilt * tried;
        if (rest <= 0) return epsilon;
        double left = sketches.least();
        for (int i = 0; i < count; ++i) {
            const double at = -(values[i] + rest) / steps[i];
            if (at > left) left = at, w.further_left = -tilt - steps[i];
        }
        return std::min(left, epsilon);
    };
    if (left_for(length) + length < right) {
        double low = length, high = std::max({2 * length, right - sketches.least(), 1e-300});
        for (int i = 0; i < 30; ++i) {
            const double mid = 0.5 * (low + high);
            (left_for(mid) + mid < right ? low : high) = mid;
        }
        length = high;
    }
    w.left = left_for(length);
    w.right = w.left + length;
    return w;
}

}  // namespace tightdp::grid
