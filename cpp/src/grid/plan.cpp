#include "plan.hpp"

#include <algorithm>
#include <cmath>

namespace tightdp::grid {
namespace {

constexpr double kLeastPoints = 64;
// Work of all levels over the points that the largest may have.
constexpr double kMostCost = 3;
// Largest excess of tilt times spacing over ln count on the distribution's own lattice: with it, all steps at their
// largest loss outweigh by e^3 the case that one of them is not. A larger one would only magnify rounding errors
// further left.
constexpr double kMostLean = 3;
constexpr int kMostLevels = 26;
constexpr double kMostIndex = 0x1p50;
// Each level takes the fourth power, so that spreads and spacings double.
constexpr double kRadix = 4;

// Largest ratio of a spacing to the finest one allowed, where a finer spacing costs nothing.
constexpr double kLeeway = 1.25;
// Largest number of distributions for which a spacing that suits several of them is searched.
constexpr std::size_t kFewLaws = 4;
// Largest number of a distribution's steps in a spacing for which the spacing is made a whole number of them.
constexpr double kMostSteps = 4096;
// Windows on the way begin at whole multiples of this part of their length.
constexpr double kWindowSteps = 32;

// The number from least to most (0 < least <= most) with the fewest significant bits: it does not change while the
// ends move around it, and many multiples of it are doubles.
double roundest(double least, double most) {
    int exponent;
    std::frexp(most, &exponent);
    for (double unit = std::ldexp(1.0, exponent); unit > 0; unit /= 2) {
        const double x = std::floor(most / unit) * unit;
        if (x >= least) return x;
    }
    return most;
}

// Fraction of the law that no lattice through the right points would carry exactly.
double rough_mass(const Law& law) {
    double on = 0;
    for (const Atom& a : law.atoms) {
        const double r = law.step > 0 ? (a.loss - law.anchor) / law.step : a.loss == law.anchor ? 0 : 0.5;
        if (std::abs(r - std::round(r)) < 1e-12 * (1 + std::abs(r))) on += std::exp(a.log_mass);
    }
    return std::clamp(1 - on - law.infinity, 0.0, 1.0);
}

// The distribution whose steps the spacing should divide: among those that have steps, the one with the largest share
// of the variance. Among many distributions it is of use, and worth another lattice when it changes, only if it has
// most of the variance.
const Law* leader(const std::vector<Part>& parts, const Sketches& sketches, double tilt) {
    const Law* best = nullptr;
    double most = -1, all = 0;
    for (std::size_t j = 0; j < parts.size(); ++j) {
        const Law* law = parts[j].law.get();
        const double v = parts[j].count * sketches.cumulant(j, tilt).variance;
        all += v;
        if (law->step > 0 && v > most) most = v, best = law;
    }
    return parts.size() <= kFewLaws || most > 0.5 * all ? best : nullptr;
}

// A spacing from least to most that divides the leader's steps and, as nearly as possible, those of a few others: a
// lone atom that misses the lattice by t cells moves the lower bound by t h. If possible, the number of cells in a
// step halves with every later level, so that atoms stay on the lattice while it gets coarser.
double fit_several(double least, double most, const std::vector<Part>& parts, const Law* leader, int levels) {
    // Any number of tries is correct: a spacing that misses costs width. This number takes a tenth of a millisecond.
    constexpr int kTries = 4096;
    const double from = std::ceil(leader->step / most), to = std::max(from, std::floor(leader->step / least));
    double unit = std::exp2(levels);
    while (unit > 1 && std::ceil(from / unit) * unit > to) unit /= 2;
    const double largest = std::floor(to / unit) * unit;
    double best = leader->step / largest, least_missed = HUGE_VAL;
    for (int i = 0; i <= kTries; ++i) {  // counted: what is far beyond 2^53 stays what it is less 1
        const double cells = largest - i * unit;
        if (!(cells >= from)) break;
        double missed = 0;
        for (const Part& part : parts) {
            if (part.law.get() == leader || !(part.law->step > 0)) continue;
            const double r = part.law->step / leader->step * cells;
            missed += part.count * std::abs(r - std::round(r)) / cells;
        }
        if (missed < least_missed) least_missed = missed, best = leader->step / cells;
        if (missed == 0) break;
    }
    return best;
}

bool several(const std::vector<Part>& parts) { return parts.size() > 1 && parts.size() <= kFewLaws; }

// About the coarsest spacing up to `most` that suits the leader.
double coarsest(double most, const std::vector<Part>& parts, const Law* leader, int levels) {
    if (!leader) return most;
    if (leader->step > most)
        return several(parts) ? fit_several(0.5 * most, most, parts, leader, levels)
                              : leader->step / std::ceil(leader->step / most);
    // Whole numbers of steps finer than that, if there are few.
    const double steps = std::floor(most / leader->step);
    return steps < kMostSteps ? leader->step * steps : most;
}

// A spacing from least to most that suits the leader; one not much coarser than `least`, if that will do.
double fit(double least, double most, const std::vector<Part>& parts, const Law* leader, int levels) {
    if (leader && leader->step > least && several(parts)) return fit_several(least, most, parts, leader, levels);
    most = std::min(most, kLeeway * least);
    if (leader && leader->step <= least && most < kMostSteps * leader->step) {
        const double steps = std::floor(most / leader->step), fewest = std::ceil(least / leader->step);
        return leader->step * roundest(std::min(fewest, steps), steps);
    }
    if (!leader || leader->step <= least) return roundest(least, most);
    const double from = std::ceil(leader->step / most), to = std::max(from, std::floor(leader->step / least));
    return leader->step / roundest(from, to);
}

struct Shape {
    std::vector<double> spacing, width;
    std::vector<Window> windows;
    double cost = HUGE_VAL;
    double most = 0;  // points of the largest level, or what all levels count for
};

// Difference in nats between the bound at this tilt and the bound at the best one: the precision that the tilt gives
// up.
double loss(const Sketches& sketches, const Target& target, double tilt) {
    return std::max(0.0, sketches.cumulant(tilt).value + log_kernel(tilt) - tilt * target.epsilon - target.log_delta);
}

Window final_window(const Sketches& sketches, const Target& target, double tilt, double log_tail) {
    return window_for(sketches, tilt, target.epsilon - target.margin,
                      target.log_delta - target.margin * target.slope, log_tail);
}

// Heavy tails make the best tilt a bad one: it sees several large losses together where delta comes from one. A
// smaller tilt then has the shorter window. Near the shortest window, the function chooses a tilt that does not change
// while the question changes a little.
double choose_tilt(const Sketches& sketches, const Target& target, double log_tail) {
    // Any values are correct. An even tilt may cost a tenth of the window, which asks for twice the points in one of
    // seven questions, and a nat of the digits at hand, half a digit.
    constexpr double kAbout = 1.1, kNats = 1;
    constexpr int kTries = 12;  // down to a 72nd, .7^12
    // Relative errors grow by e^loss; they shall stay small against the width.
    const double most_loss = target.digits + target.log_width;
    const auto length = [&](double tilt) {
        const Window w = final_window(sketches, target, tilt, log_tail);
        return w.right - w.left;
    };
    double best = target.best_tilt, shortest = HUGE_VAL, tilt = best;
    for (int i = 0; i < kTries; ++i, tilt = on_ladder(0.7 * tilt)) {
        if (tilt < best && loss(sketches, target, tilt) > most_loss) break;
        const double found = length(tilt);
        if (found < shortest * 0.99)
            shortest = found, best = tilt;
        else if (tilt < 0.5 * best)
            break;
    }
    const double allowed = loss(sketches, target, best) + kNats;
    for (int halvings = 0; halvings < kRungHalvings; ++halvings) {
        const double even = on_ladder(best, halvings);
        if (loss(sketches, target, even) <= allowed && length(even) <= kAbout * shortest) return even;
    }
    return best;
}

}  // namespace

Plan make_plan(const std::vector<Part>& parts, const Sketches& sketches, const Target& target) {
    Plan plan;
    const double log_tail = target.log_tail;
    plan.tilt = choose_tilt(sketches, target, log_tail);
    plan.most_cells = 2 * target.most_points;
    // The lattice is that of one distribution; not even the atoms of the others lie on it.
    const Law* law = leader(parts, sketches, plan.tilt);
    double rough = 0;
    for (const Part& part : parts)
        rough += part.count * (part.law.get() == law || !(part.law->step > 0) ? rough_mass(*part.law) : 1);
    bool exact = parts.size() == 1 && law && rough < 1e-9 * parts[0].count;
    const Window asked = final_window(sketches, target, plan.tilt, log_tail);
    exact = exact && (asked.right - asked.left) / law->step < static_cast<double>(target.most_points);
    if (!exact)
        for (const Part& part : parts) rough = std::max(rough, part.count);
    // A tilt that only tells the points of the distribution's own lattice apart is enough.
    if (exact) plan.tilt = std::min(plan.tilt, on_ladder(0.97 * (kMostLean + std::log(parts[0].count)) / law->step));
    const double lambda = plan.tilt;
    // On all levels but the last, mass outside of a window is compared with what the question integrates in the end.
    const double inner_tail = log_tail + loss(sketches, target, lambda) - log_kernel(lambda);
    for (std::size_t j = 0; j < parts.size(); ++j) {
        plan.scales.push_back(sketches.cumulant(j, lambda).value - lambda * parts[j].law->anchor);
        plan.ranges.push_back(sketches.range(j, lambda, inner_tail + 3));
    }

    // A cell of width h adds c (c + 1) h^2 / 8 to the width of ln delta, c its slope, a coarsening 3/2 of that
    // (grid.md, section 7); .7 leaves room for what else there is.
    const double unit = 0.7 * target.finer * std::exp(target.log_width) * 8 / (target.slope * (target.slope + 1));
    double ranges = 0;
    for (const Range& range : plan.ranges) ranges += range.right - range.left;
    Shape best;
    // The number of levels is limited so that the first one has steps to multiply.
    const double most = std::ranges::max(parts, {}, &Part::count).count;
    for (int levels = 0; levels <= kMostLevels && std::pow(kRadix, levels) <= (exact ? 1 : most); ++levels) {
        const double first_share = std::pow(kRadix, -levels);
        const double pieces = rough * first_share + 6.0 * levels + 3 * (levels > 0);
        Shape shape;
        shape.cost = 0;
        double cells = 0;
        const double last = std::sqrt(unit / std::max(pieces, 1e-30));
        for (int l = 0; l <= levels; ++l) {
            const double share = std::pow(kRadix, l - levels);
            const Window w = l == levels ? asked : window(sketches, lambda, inner_tail + std::log(1 / share), share);
            // A flat curve also needs some points in a window, so that it differs from an empty one.
            const double widest = std::min(last * std::sqrt(share), std::max(w.right - w.left, 1e-300) / kLeastPoints);
            const double h = l > 0   ? 2 * shape.spacing.back()
                             : exact ? law->step
                                     : coarsest(widest, parts, law, levels);
            const double points = std::max(kLeastPoints, 1.02 * (w.right - w.left) / h + 16);
            shape.spacing.push_back(h);
            shape.windows.push_back(w);
            shape.most = std::max(shape.most, points);
            shape.cost += points * (1 + 0.5 * (l > 0));
            cells += ranges / h;
        }
        shape.cost += 0.5 * cells;
        shape.most = std::max(shape.most, shape.cost / kMostCost);
        const bool fits = best.most <= target.most_points;
        if (fits ? shape.cost < 0.6 * best.cost : shape.most < best.most) best = std::move(shape);
    }
    if (best.spacing.empty() || !(best.most < kMostIndex)) {  // beyond all that a coarser lattice could mend
        Level none{};
        none.h = 1;
        none.n = static_cast<std::size_t>(kLeastPoints);
        none.possible = false;
        plan.levels.push_back(std::move(none));
        return plan;
    }
    const auto levels = static_cast<int>(best.spacing.size()) - 1;
    // Doubles the spacing until the largest level fits, if it has too many points.
    double coarser = 1;
    if (best.most > target.most_points) coarser = std::exp2(std::ceil(std::log2(best.most / target.most_points)));
    // The spacings double from level to level, which coarsening relies on. Rounding the lengths up to powers of two
    // leaves room, which is used for finer spacings.
    const auto points = [&](int l, double h) {
        const double longer = l < levels ? 1.02 + 1 / kWindowSteps : 1.02;
        return std::max(kLeastPoints, longer * (best.windows[l].right - best.windows[l].left) / h + 16);
    };
    double h0 = best.spacing[0] * coarser;
    std::vector<double> lengths;
    for (int l = 0; l <= levels; ++l) {
        const double most_points = 4 * static_cast<double>(target.most_points);
        lengths.push_back(std::exp2(std::ceil(std::log2(std::min(points(l, std::ldexp(h0, l)), most_points)))));
    }
    if (!exact) {
        double spare = HUGE_VAL;
        for (int l = 0; l <= levels; ++l)
            spare = std::min(spare, (lengths[l] - 17) / (points(l, std::ldexp(h0, l)) - 16));
        // The lengths have two in a hundred to spare in any case.
        const double least = h0 / std::max(spare, 1 + 1.0 / 64);
        h0 = fit(least, h0 * (1 + 1e-9), parts, law, levels);
    }
    std::vector<double> before(parts.size());
    for (int l = 0; l <= levels; ++l) {
        Level level;
        level.h = std::ldexp(h0, l);
        const Window& w = best.windows[l];
        level.n = static_cast<std::size_t>(lengths[l]);
        level.window = w;
        const double share = std::pow(kRadix, levels - l);
        double anchor = 0;
        for (std::size_t j = 0; j < parts.size(); ++j) {
            const double count = std::floor(parts[j].count / share);
            level.steps.push_back(count - kRadix * before[j]);
            before[j] = count;
            anchor += count * parts[j].law->anchor;
        }
        const double spare = 0.5 * (static_cast<double>(level.n) - (w.right - w.left) / level.h);
        const double step = l < levels ? static_cast<double>(level.n) / kWindowSteps : 1;
        const double first = std::floor(((w.left - anchor) / level.h - spare) / step) * step;
        level.possible = std::abs(first) < kMostIndex;
        level.first = level.possible ? static_cast<std::int64_t>(first) : 0;
        plan.levels.push_back(std::move(level));
    }
    return plan;
}

std::size_t Plan::points() const {
    std::size_t n = 0;
    for (const Level& level : levels) n = std::max(n, level.n);
    return n;
}

}  // namespace tightdp::grid
