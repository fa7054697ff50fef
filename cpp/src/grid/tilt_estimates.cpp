// Estimates from sketches, the lists of lumps of mass that stand for distributions (docs/theory/grid.md, section 7).
// tilt_estimates.hpp explains tilts, cumulants and windows.
#include "tilt_estimates.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>

#include "grid_loops.simd.hpp"
#include "result_store.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

// Number of rungs by which a tilt doubles. A rung is a tilt that round_grid_tilt() returns.
constexpr int kOctave = 1 << kRungHalvings;
// Least number of parts for which looking up the sum of their cumulants is faster than adding the cumulants.
constexpr std::size_t kManyParts = 4;

double round_grid_estimate_down(double x, double unit) {
    return unit * std::floor(x / unit);
}
double round_grid_estimate_up(double x, double unit) {
    return unit * std::ceil(x / unit);
}

double grid_tilt_at_rung(int rung) {
    return std::exp2(static_cast<double>(rung) / kOctave);
}

int rung_of_grid_tilt(double tilt) {
    constexpr double kMost = 1000;
    return static_cast<int>(std::lround(kOctave * std::clamp(std::log2(tilt), -kMost, kMost)));
}

// Returns the power of two nearest to x.
double round_to_grid_octave(double x) {
    return std::exp2(std::round(std::clamp(std::log2(x), -1000.0, 1000.0)));
}

// Finds the first local minimum of f over the tilts that round_grid_tilt() returns, starting left of `guess`. With a
// heavy tail, f has another minimum at larger tilts. That minimum depends only on the point where the tail is cut off.
// `enough` tells, from a tilt and the value of f there, whether larger tilts are of no use.
template <class F, class Enough>
Saddle minimise_over_grid_tilts(F f, double guess, Enough enough) {
    constexpr int kLeast = -66 * kOctave, kMost = 115 * kOctave;
    const auto at = [&](int rung) { return f(grid_tilt_at_rung(rung)); };
    int b = std::clamp(rung_of_grid_tilt(guess) - 6 * kOctave, kLeast, kMost), a = b - kOctave;
    double fb = at(b), fa = at(a), step = kOctave;
    while (fa < fb && a > kLeast) {
        b = a, fb = fa;
        a -= static_cast<int>(step *= 1.6);
        fa = at(a);
    }
    step = kOctave;
    int c = b + kOctave;
    double fc = at(c);
    while (fc < fb && c < kMost && !enough(grid_tilt_at_rung(c), fc)) {
        a = b, fa = fb, b = c, fb = fc;
        c += static_cast<int>(step *= 1.1);
        fc = at(c);
    }
    while (b - a > 1 || c - b > 1) {
        const bool left = b - a > c - b;
        const int d = left ? b - std::max(1, (b - a) * 2 / 5) : b + std::max(1, (c - b) * 2 / 5);
        const double fd = at(d);
        if (fd < fb) {
            (left ? c : a) = b;
            b = d, fb = fd;
        } else {
            (left ? a : c) = d;
        }
    }
    return {grid_tilt_at_rung(b), fb};
}

// Returns the standard deviation, but at least a small part of the whole range, because all mass may lie in one point.
double estimate_grid_deviation(const Cumulant& c, const Sketches& sketches) {
    return std::max(std::sqrt(c.variance), 1e-9 * (sketches.largest_grid_loss() - sketches.least_grid_loss())) + 1e-300;
}

}  // namespace

double round_grid_tilt(double tilt, int halvings) {
    const int unit = kOctave >> halvings, rung = rung_of_grid_tilt(tilt);
    return grid_tilt_at_rung((rung + (rung < 0 ? -unit : unit) / 2) / unit * unit);
}

TailExponents::Each TailExponents::list_right_exponents() const {
    Each found{4, 2, 1, 0x1p-1, 0x1p-2, 0x1p-3, 0x1p-5, 0x1p-7};
    for (double& one : found) one *= right_unit;
    return found;
}

// If the support ends near the window's left end, very little mass lies outside of the window. The largest exponents
// give the best bounds on this mass.
TailExponents::Each TailExponents::list_left_exponents() const {
    Each found{64, 16, 4, 2, 1, 0x1p-1, 0x1p-2, 0x1p-4};
    for (double& one : found) one = -left_from - left_unit * one;
    return found;
}

double log_grid_tilt_factor(double tilt) {
    return -tilt * std::log1p(1 / tilt) - std::log1p(tilt);
}

// Known cumulants of one composition at the tilts for which they were computed.
struct Totals {
    // One bound needs the cumulants of the whole composition at some hundred tilts, and the cumulants of each
    // distribution at a few tilts.
    static constexpr std::size_t kMost = 1024, kBytes = kMost * 64, kOwnBytes = 2048;

    bool find_grid_cumulant(double tilt, Cumulant& found) const {
        const std::lock_guard lock(mutex);
        const auto at = known.find(tilt);
        if (at == known.end()) return false;
        found = at->second;
        return true;
    }

    void keep_grid_cumulant(double tilt, const Cumulant& total) {
        const std::lock_guard lock(mutex);
        if (known.size() >= kMost) known.clear();
        known.emplace(tilt, total);
    }

    mutable std::mutex mutex;
    std::unordered_map<double, Cumulant> known;
};

Sketches::Sketches(const std::vector<Part>& parts, double log_beyond) {
    for (const Part& part : parts) {
        const Sketch& sketch = part.losses->get_loss_sketch();
        const double beyond =
            std::exp(round_grid_estimate_down(log_beyond, 2) - round_grid_estimate_up(std::log(part.count), 2));
        const auto end = sketch.above.begin() + static_cast<std::ptrdiff_t>(sketch.size);
        const auto cut = std::partition_point(sketch.above.begin(), end, [&](double above) { return above >= beyond; });
        std::size_t size = std::max<std::size_t>(1, static_cast<std::size_t>(cut - sketch.above.begin()));
        if (size < sketch.size) ++size;  // the last lattice point is at this lump, and gets part of the mass beyond
        // The first and the last lump of a density stand for mass that extends further out.
        const auto gap = [&](std::size_t i) {
            return part.losses->density && sketch.size > 1 ? sketch.loss[i + 1] - sketch.loss[i] : 0;
        };
        const double left = sketch.loss[0] - gap(0);
        const double right = sketch.loss[size - 1] + (size == sketch.size ? gap(size < 2 ? 0 : size - 2) : 0);
        cuts_.push_back(
            {&sketch, size, part.count, part.losses->infinity, left, right, part.losses->density != nullptr, nullptr});
    }
    for (const Cut& cut : cuts_) units_ += count_cumulant_work(cut);
    if (parts.size() < kManyParts) return;
    for (std::size_t j = 0; j < parts.size(); ++j)
        cuts_[j].known = Store::get_shared_store().make_stored_result<Totals>(
            {kTotals, parts[j].losses->id, cuts_[j].size}, Totals::kOwnBytes);
    Key key{kTotals};
    for (std::size_t j = 0; j < parts.size(); ++j) {
        key.insert(key.end(), {parts[j].losses->id, cuts_[j].size, result_store_word(parts[j].count)});
        const std::size_t missing = parts.size() - 1 - j;
        if (missing < totals_.size())
            totals_[missing] = Store::get_shared_store().make_stored_result<Totals>(key, Totals::kBytes);
    }
}

std::int64_t Sketches::count_cumulant_work(const Cut& cut) {
    return 2 * static_cast<std::int64_t>(cut.size) + 50;
}

Cumulant Sketches::compute_sketch_cumulant(const Cut& cut, double tilt) {
    const Sketch& s = *cut.sketch;
    const double top = tilt * (tilt > 0 ? s.loss[cut.size - 1] : s.loss[0]);
    double peak = 0;
    if (top > 600 || top < -16) {  // with peak = 0, sums would overflow or consist of rounding errors
        peak = -HUGE_VAL;
        for (std::size_t i = 0; i < cut.size; ++i) peak = std::max(peak, s.log_mass[i] + tilt * s.loss[i]);
    }
    double sums[4];
    TIGHTDP_SELECT_SIMD(sum_grid_moments)(tilt, peak, s.loss.data(), s.log_mass.data(), s.mass.data(), cut.size, sums);
    // The masses of a sketch add up to 1 up to rounding errors. These errors could be larger than a cumulant near zero,
    // which is therefore computed from the sum of mass (e^{tilt loss} - 1).
    double value = peak + std::log(sums[0]);
    if (peak == 0 && std::abs(sums[3]) < 0.5) {
        const double beyond = cut.size < s.size ? s.above[cut.size] : 0;
        value = std::log1p(sums[3] - cut.infinity - beyond);
    }
    const double mean = sums[1] / sums[0];
    return {value, mean, std::max(0.0, sums[2] / sums[0] - mean * mean)};
}

Cumulant Sketches::estimate_grid_cumulant(std::size_t part, double tilt) const {
    const Cut& cut = cuts_[part];
    work::spend(count_cumulant_work(cut));
    Cumulant found;
    if (cut.known && cut.known->find_grid_cumulant(tilt, found)) return found;
    found = compute_sketch_cumulant(cut, tilt);
    if (cut.known) cut.known->keep_grid_cumulant(tilt, found);
    return found;
}

Cumulant Sketches::estimate_grid_cumulant(double tilt, double share) const {
    const std::size_t size = cuts_.size();
    work::spend(units_);  // charged even if the cumulants are known
    const bool known = share == 1 && totals_[0];
    Cumulant total;
    std::size_t from = 0;
    for (std::size_t missing = 0; known && from == 0 && missing < totals_.size(); ++missing)
        if (totals_[missing]->find_grid_cumulant(tilt, total)) from = size - missing;
    for (std::size_t j = from; j < size; ++j) {
        const double count = std::floor(cuts_[j].count * share);
        if (!(count > 0)) continue;
        const Cumulant one = compute_sketch_cumulant(cuts_[j], tilt);
        total.value += count * one.value;
        total.mean += count * one.mean;
        total.variance += count * one.variance;
        if (known && size - 1 - j < totals_.size()) totals_[size - 1 - j]->keep_grid_cumulant(tilt, total);
    }
    return total;
}

double Sketches::least_grid_loss(double share) const {
    double sum = 0;
    for (const Cut& cut : cuts_) sum += std::floor(cut.count * share) * cut.left;
    return sum;
}

double Sketches::largest_grid_loss(double share) const {
    double sum = 0;
    for (const Cut& cut : cuts_) sum += std::floor(cut.count * share) * cut.right;
    return sum;
}

Range Sketches::estimate_grid_range(std::size_t part, double tilt, double log_left) const {
    const Cut& cut = cuts_[part];
    const Sketch& s = *cut.sketch;
    const double least =
        estimate_grid_cumulant(part, tilt).value - round_grid_estimate_up(log_left + std::log(cut.count), 4);
    // Suppose that the mass up to a lump is moved to the next lump and tilted there. The code bisects for the first
    // lump at which the moved mass is not negligible.
    std::size_t from = 0, end = cut.size - 1;
    while (from < end) {
        const std::size_t middle = from + (end - from) / 2;
        const double below = s.above[0] - s.above[middle + 1];
        if (std::log(below) + tilt * s.loss[middle + 1] > least)
            end = middle;
        else
            from = middle + 1;
    }
    const double left = from > 0 ? s.loss[from - 1] : cut.left;
    // Each lump of a density stands for mass in an interval around it.
    if (cut.smooth || cut.size < 2) return {left, cut.right};
    // No mass lies between atoms. Mass left of the range moves up to where the range begins. The range begins at the
    // next atom, or at the point right of which the moved mass would no longer be negligible.
    const std::size_t last = std::min(from, cut.size - 2);
    const double begin = (least - std::log(s.above[0] - s.above[last + 1])) / tilt;
    return {std::max(left, std::min(s.loss[last + 1], begin)), cut.right};
}

Saddle find_grid_saddle_at_epsilon(const Sketches& sketches, double epsilon) {
    const Cumulant at0 = sketches.estimate_grid_cumulant(0);
    const double spread = std::sqrt(at0.variance) + 1e-300;
    const double guess = std::max(1e-3 / spread, (epsilon - at0.mean) / (spread * spread));
    // The nearer epsilon is to the end of the support, the larger is the best tilt. Relative distances from the end
    // that are below 1e-9 are treated alike, so no tilts above `largest` are tried.
    const double largest = 1e9 / std::max(std::abs(epsilon), spread);
    return minimise_over_grid_tilts(
        [&](double tilt) {
            return sketches.estimate_grid_cumulant(tilt).value + log_grid_tilt_factor(tilt) - tilt * epsilon;
        },
        std::min(guess, 40 / spread), [&](double tilt, double) { return tilt > largest; });
}

Saddle find_grid_saddle_at_delta(const Sketches& sketches, double log_delta, double finest) {
    const double spread = std::sqrt(sketches.estimate_grid_cumulant(0).variance) + 1e-300;
    // A distribution with a single loss has no spread, and its best tilt is about 1/delta.
    const double guess = std::min(std::min(std::sqrt(1 - 2 * log_delta), 40.0) / spread, 0x1p10 * std::exp(-log_delta));
    return minimise_over_grid_tilts(
        [&](double tilt) {
            return (sketches.estimate_grid_cumulant(tilt).value + log_grid_tilt_factor(tilt) - log_delta) / tilt;
        },
        guess, [&](double tilt, double found) { return tilt * std::abs(found) > finest && tilt > 40 / spread; });
}

Window choose_grid_window(const Sketches& sketches, double tilt, double log_tail, double share) {
    const Cumulant centre = sketches.estimate_grid_cumulant(tilt, share);
    const double normal = round_to_grid_octave(std::sqrt(2 * log_tail) / estimate_grid_deviation(centre, sketches));
    Window w{-HUGE_VAL, HUGE_VAL, {normal, normal, 0}};
    for (const double right : w.exponents.list_right_exponents())
        w.right = std::min(
            w.right, (sketches.estimate_grid_cumulant(tilt + right, share).value - centre.value + log_tail) / right);
    for (const double left : w.exponents.list_left_exponents())
        w.left = std::max(w.left,
                          (sketches.estimate_grid_cumulant(tilt + left, share).value - centre.value + log_tail) / left);
    w.right = std::min(w.right, sketches.largest_grid_loss(share));
    w.left = std::max(w.left, sketches.least_grid_loss(share));
    if (!(w.left <= w.right)) w.left = std::min(w.left, centre.mean), w.right = std::max(w.right, centre.mean);
    return w;
}

Window choose_shortest_grid_window(const Sketches& sketches, double tilt, double epsilon, double log_delta,
                                   double log_tail) {
    const Cumulant centre = sketches.estimate_grid_cumulant(tilt), at0 = sketches.estimate_grid_cumulant(0);
    const double goal = log_tail - log_delta;
    const double normal = round_to_grid_octave(std::sqrt(2 * log_tail) / estimate_grid_deviation(centre, sketches));
    const double around = round_to_grid_octave(std::sqrt(2 * goal) / estimate_grid_deviation(at0, sketches));
    Window w{0, 0, {normal, around, tilt}};
    // Mass beyond epsilon + length would wrap round to points right of epsilon, where it would count towards delta.
    // Mass beyond `right` would be missing. `length` and `right` are chosen so that there is little mass beyond them.
    double length = sketches.largest_grid_loss() - epsilon, right = sketches.largest_grid_loss();
    for (const double step : w.exponents.list_right_exponents()) {
        const double s = tilt + step, value = sketches.estimate_grid_cumulant(s).value;
        length = std::min(length, (value - s * epsilon + goal) / step);
        right = std::min(right, (value + goal) / s);
    }
    right = std::max(right, epsilon + 1e-12 * std::abs(epsilon));
    length = std::max(length, 0.0);
    // If e^{-tilt length} is small enough by itself, the window may begin at epsilon. Otherwise the window begins left
    // of epsilon, where the mass left of the window, times e^{-tilt length}, is small enough.
    const TailExponents::Each steps = w.exponents.list_left_exponents();
    TailExponents::Each values;
    for (std::size_t i = 0; i < steps.size(); ++i) values[i] = sketches.estimate_grid_cumulant(tilt + steps[i]).value;
    const auto left_for = [&](double tried) {
        const double rest = goal - tilt * tried;
        if (rest <= 0) return epsilon;
        double left = sketches.least_grid_loss();
        for (std::size_t i = 0; i < steps.size(); ++i) left = std::max(left, (values[i] + rest) / (tilt + steps[i]));
        return std::min(left, epsilon);
    };
    if (left_for(length) + length < right) {
        double low = length, high = std::max({2 * length, right - sketches.least_grid_loss(), 1e-300});
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
