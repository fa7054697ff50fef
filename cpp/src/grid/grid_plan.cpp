// Chooses the tilt, the spacings and the windows of a plan. grid_plan.hpp explains these words and the levels of a
// plan.
#include "grid_plan.hpp"

#include <algorithm>
#include <cmath>

namespace tightdp::grid {
namespace {

// Smallest number of lattice points of a level.
constexpr double kLeastPoints = 64;
// Largest ratio of a plan's cost to Target::most_points, the limit on the points of a level. The cost (Shape::cost) is
// about the number of points of all levels.
constexpr double kMostCost = 3;
// If all atoms of a single distribution lie on the points of one lattice, this lattice is used. For `count` steps,
// kMostLean is then the largest value of tilt * spacing - ln(count). Consider two events: all steps have their
// largest loss, or one step has the next smaller loss. At kMostLean, the first event has e^3 times the tilted weight of
// the second. A larger value would only magnify rounding errors at smaller losses.
constexpr double kMostLean = 3;
constexpr int kMostLevels = 26;
constexpr double kMostIndex = 0x1p50;
// Each level composes four copies of the level before. This doubles the standard deviation, and the spacing doubles
// too.
constexpr double kRadix = 4;

// fit_grid_spacing() chooses a round number between `least` and kLeeway * `least`. Here `least` is the smallest spacing
// with which the planned number of points of each level still covers the level's window.
constexpr double kLeeway = 1.25;
// Largest number of distributions for which fit_grid_to_several_parts looks for a spacing that suits several of them.
constexpr std::size_t kFewDistributions = 4;
// Largest ratio of the spacing to a distribution's step (LossDistribution::step) at which the spacing is made a
// multiple of the step.
constexpr double kMostSteps = 4096;
// Windows of all levels but the last begin at multiples of 1/kWindowSteps of their length.
constexpr double kWindowSteps = 32;

// Returns the number in [least, most], 0 < least <= most, with the fewest significant bits. This number stays the same
// while the ends of the interval change a little, and many of its multiples are doubles.
double choose_roundest_grid_spacing(double least, double most) {
    int exponent;
    std::frexp(most, &exponent);
    for (double unit = std::ldexp(1.0, exponent); unit > 0; unit /= 2) {
        const double x = std::floor(most / unit) * unit;
        if (x >= least) return x;
    }
    return most;
}

// Returns the fraction of a distribution that even the best lattice would not carry exactly. This fraction is 1 minus
// the mass at infinity, minus the mass of the atoms whose losses are anchor + i * step for integers i.
double measure_mass_off_grid(const LossDistribution& losses) {
    double on = 0;
    for (const Atom& a : losses.atoms) {
        const double r = losses.step > 0 ? (a.loss - losses.anchor) / losses.step : a.loss == losses.anchor ? 0 : 0.5;
        if (std::abs(r - std::round(r)) < 1e-12 * (1 + std::abs(r))) on += std::exp(a.log_mass);
    }
    return std::clamp(1 - on - losses.infinity, 0.0, 1.0);
}

// Returns the leader: the distribution whose step the spacing should divide. The leader has the largest share of the
// variance among the distributions that have a step. If there are many distributions, there is a leader only if one
// distribution has most of the variance. A leader with less would be of little use, and the lattice would change
// whenever the leader changes.
const LossDistribution* choose_grid_leader(const std::vector<Part>& parts, const Sketches& sketches, double tilt) {
    const LossDistribution* best = nullptr;
    double most = -1, all = 0;
    for (std::size_t j = 0; j < parts.size(); ++j) {
        const LossDistribution* losses = parts[j].losses.get();
        const double v = parts[j].count * sketches.estimate_grid_cumulant(j, tilt).variance;
        all += v;
        if (losses->step > 0 && v > most) most = v, best = losses;
    }
    return parts.size() <= kFewDistributions || most > 0.5 * all ? best : nullptr;
}

// Returns a spacing in [least, most] that divides the leader's step and, as nearly as possible, the steps of a few
// other distributions. An atom that misses the lattice by t cells of width h moves the lower bound by t h. If possible,
// the number of cells in the leader's step is divisible by 2^levels. The leader's atoms then stay on the lattice, whose
// spacing doubles at each later level.
double fit_grid_to_several_parts(double least, double most, const std::vector<Part>& parts,
                                 const LossDistribution* leader, int levels) {
    // The bounds hold for any number of tries, because a spacing that misses atoms only makes bounds wider. 4096 tries
    // take a tenth of a millisecond.
    constexpr int kTries = 4096;
    const double from = std::ceil(leader->step / most), to = std::max(from, std::floor(leader->step / least));
    double unit = std::exp2(levels);
    while (unit > 1 && std::ceil(from / unit) * unit > to) unit /= 2;
    const double largest = std::floor(to / unit) * unit;
    double best = leader->step / largest, least_missed = HUGE_VAL;
    // The loop counts by an integer i, because subtracting 1 does not change a double beyond 2^53.
    for (int i = 0; i <= kTries; ++i) {
        const double cells = largest - i * unit;
        if (!(cells >= from)) break;
        double missed = 0;
        for (const Part& part : parts) {
            if (part.losses.get() == leader || !(part.losses->step > 0)) continue;
            const double r = part.losses->step / leader->step * cells;
            missed += part.count * std::abs(r - std::round(r)) / cells;
        }
        if (missed < least_missed) least_missed = missed, best = leader->step / cells;
        if (missed == 0) break;
    }
    return best;
}

bool has_few_grid_parts(const std::vector<Part>& parts) {
    return parts.size() > 1 && parts.size() <= kFewDistributions;
}

// Returns a spacing of at most `most` that suits the leader and is about as coarse as possible.
double choose_coarsest_grid_spacing(double most, const std::vector<Part>& parts, const LossDistribution* leader,
                                    int levels) {
    if (!leader) return most;
    if (leader->step > most)
        return has_few_grid_parts(parts) ? fit_grid_to_several_parts(0.5 * most, most, parts, leader, levels)
                                         : leader->step / std::ceil(leader->step / most);
    // The step is finer than `most`: the spacing is a multiple of the step, unless that is a very large multiple.
    const double steps = std::floor(most / leader->step);
    return steps < kMostSteps ? leader->step * steps : most;
}

// Returns a spacing in [least, most] that suits the leader. If possible, this spacing is at most kLeeway times `least`.
double fit_grid_spacing(double least, double most, const std::vector<Part>& parts, const LossDistribution* leader,
                        int levels) {
    if (leader && leader->step > least && has_few_grid_parts(parts))
        return fit_grid_to_several_parts(least, most, parts, leader, levels);
    most = std::min(most, kLeeway * least);
    if (leader && leader->step <= least && most < kMostSteps * leader->step) {
        const double steps = std::floor(most / leader->step), fewest = std::ceil(least / leader->step);
        return leader->step * choose_roundest_grid_spacing(std::min(fewest, steps), steps);
    }
    if (!leader || leader->step <= least) return choose_roundest_grid_spacing(least, most);
    const double from = std::ceil(leader->step / most), to = std::max(from, std::floor(leader->step / least));
    return leader->step / choose_roundest_grid_spacing(from, to);
}

// A candidate for the levels of a plan.
struct Shape {
    std::vector<double> spacing, width;
    std::vector<Window> windows;
    double cost = HUGE_VAL;
    double most = 0;  // points of the largest level, or cost / kMostCost if that is more
};

// Returns the loss of precision at a tilt, in nats. For this tilt and for the best tilt, one moment gives a bound on
// ln delta (Saddle). The result L is the difference of the two bounds. At this tilt the relative error of delta is e^L
// times the error at the best tilt.
double measure_grid_precision_loss(const Sketches& sketches, const Target& target, double tilt) {
    return std::max(0.0, sketches.estimate_grid_cumulant(tilt).value + log_grid_tilt_factor(tilt) - tilt * target.epsilon -
                             target.log_delta);
}

Window choose_final_grid_window(const Sketches& sketches, const Target& target, double tilt, double log_tail) {
    return choose_shortest_grid_window(sketches, tilt, target.epsilon - target.margin,
                                       target.log_delta - target.margin * target.slope, log_tail);
}

// Chooses the tilt. For heavy tails the tilt of the best bound by one moment is a bad choice. That tilt gives most of
// the weight to several large losses together, although delta comes from a single large loss. A smaller tilt then has a
// shorter window. Among tilts whose window is nearly as short as the shortest, the function chooses one that stays the
// same when the composition, delta or epsilon changes a little.
double choose_grid_tilt(const Sketches& sketches, const Target& target, double log_tail) {
    // The bounds hold for any values. A tilt that changes rarely may have a window that is a tenth longer. The number
    // of points is rounded up to a power of two, so the longer window doubles this number in one of seven cases. The
    // tilt may also lose one nat of precision, which is half a decimal digit.
    constexpr double kAbout = 1.1, kNats = 1;
    constexpr int kTries = 12;  // down to about a 50th of the best tilt, which is 0.7^11
    // Relative errors grow by the factor e^loss, and should stay small compared with the width.
    const double most_loss = target.digits + target.log_width;
    const auto length = [&](double tilt) {
        const Window w = choose_final_grid_window(sketches, target, tilt, log_tail);
        return w.right - w.left;
    };
    double best = target.best_tilt, shortest = HUGE_VAL, tilt = best;
    for (int i = 0; i < kTries; ++i, tilt = round_grid_tilt(0.7 * tilt)) {
        if (tilt < best && measure_grid_precision_loss(sketches, target, tilt) > most_loss) break;
        const double found = length(tilt);
        if (found < shortest * 0.99)
            shortest = found, best = tilt;
        else if (tilt < 0.5 * best)
            break;
    }
    const double allowed = measure_grid_precision_loss(sketches, target, best) + kNats;
    for (int halvings = 0; halvings < kRungHalvings; ++halvings) {
        const double even = round_grid_tilt(best, halvings);
        if (measure_grid_precision_loss(sketches, target, even) <= allowed && length(even) <= kAbout * shortest)
            return even;
    }
    return best;
}

}  // namespace

Plan make_grid_plan(const std::vector<Part>& parts, const Sketches& sketches, const Target& target) {
    Plan plan;
    const double log_tail = target.log_tail;
    plan.tilt = choose_grid_tilt(sketches, target, log_tail);
    plan.most_cells = 2 * target.most_points;
    // The lattice suits one distribution, so the atoms of other distributions need not lie on the lattice.
    const LossDistribution* losses = choose_grid_leader(parts, sketches, plan.tilt);
    double rough = 0;
    for (const Part& part : parts)
        rough += part.count *
                 (part.losses.get() == losses || !(part.losses->step > 0) ? measure_mass_off_grid(*part.losses) : 1);
    bool exact = parts.size() == 1 && losses && rough < 1e-9 * parts[0].count;
    const Window asked = choose_final_grid_window(sketches, target, plan.tilt, log_tail);
    exact = exact && (asked.right - asked.left) / losses->step < static_cast<double>(target.most_points);
    if (!exact)
        for (const Part& part : parts) rough = std::max(rough, part.count);
    // On a lattice that holds all atoms, a larger tilt is of no use (kMostLean).
    if (exact)
        plan.tilt = std::min(plan.tilt, round_grid_tilt(0.97 * (kMostLean + std::log(parts[0].count)) / losses->step));
    const double lambda = plan.tilt;
    // On all levels but the last, mass outside of a window is compared with the tilted mass that makes up delta in the
    // end.
    const double inner_tail =
        log_tail + measure_grid_precision_loss(sketches, target, lambda) - log_grid_tilt_factor(lambda);
    for (std::size_t j = 0; j < parts.size(); ++j) {
        plan.scales.push_back(sketches.estimate_grid_cumulant(j, lambda).value - lambda * parts[j].losses->anchor);
        plan.ranges.push_back(sketches.estimate_grid_range(j, lambda, inner_tail + 3));
    }

    // Let c = target.slope. A cell of width h adds c (c + 1) h^2 / 8 to the width of ln delta, and a coarsening adds
    // 3/2 of this number (grid.md, section 7). The factor 0.7 leaves room for the other errors.
    const double unit = 0.7 * target.finer * std::exp(target.log_width) * 8 / (target.slope * (target.slope + 1));
    double ranges = 0;
    for (const Range& range : plan.ranges) ranges += range.right - range.left;
    Shape best;
    // The number of levels is limited, so that some part has at least one step at the first level.
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
            const Window w =
                l == levels ? asked : choose_grid_window(sketches, lambda, inner_tail + std::log(1 / share), share);
            // A window needs some points even if the curve is nearly flat. Without points, the window would be empty.
            const double widest = std::min(last * std::sqrt(share), std::max(w.right - w.left, 1e-300) / kLeastPoints);
            const double h = l > 0   ? 2 * shape.spacing.back()
                             : exact ? losses->step
                                     : choose_coarsest_grid_spacing(widest, parts, losses, levels);
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
    if (best.spacing.empty() || !(best.most < kMostIndex)) {  // too large even for a coarser lattice
        Level none{};
        none.h = 1;
        none.n = static_cast<std::size_t>(kLeastPoints);
        none.possible = false;
        plan.levels.push_back(std::move(none));
        return plan;
    }
    const auto levels = static_cast<int>(best.spacing.size()) - 1;
    // If the largest level has too many points, the spacing is doubled until it fits.
    double coarser = 1;
    if (best.most > target.most_points) coarser = std::exp2(std::ceil(std::log2(best.most / target.most_points)));
    // The spacings double from level to level, as coarsening requires. The numbers of points are rounded up to powers
    // of two, and the points that are gained serve to make the spacings finer.
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
        // The factors in `points` leave at least two percent to spare.
        const double least = h0 / std::max(spare, 1 + 1.0 / 64);
        h0 = fit_grid_spacing(least, h0 * (1 + 1e-9), parts, losses, levels);
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
            anchor += count * parts[j].losses->anchor;
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

std::size_t Plan::count_plan_points() const {
    std::size_t n = 0;
    for (const Level& level : levels) n = std::max(n, level.n);
    return n;
}

}  // namespace tightdp::grid
