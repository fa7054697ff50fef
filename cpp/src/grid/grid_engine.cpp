#include "grid_engine.hpp"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <exception>
#include <functional>

#include "level_composition.hpp"
#include "normal_approximation.hpp"
#include "runtime/work_budget.hpp"
#include "tilt_estimates.hpp"
#include "transform_free_bounds.hpp"

namespace tightdp::grid {
namespace {

// The engine answers in attempts. An attempt makes a plan of lattices (grid_plan.hpp), and composes the distributions
// as planned (level_composition.hpp). Bounds are then read off an upper and a lower curve (grid_profile.hpp). A tilt t
// multiplies masses at losses y by e^{ty}, and a window is the range of losses that a lattice covers. An atom is a
// single loss with positive mass. The width of bounds is upper - lower, and their relative width is this difference
// divided by `upper`. A nat is a difference of 1 between natural logarithms.

// Cutting off right tails may use up the fraction e^kCut of the requested width.
constexpr double kCut = -4.6;
// Largest Target::log_width for which a plan is made.
constexpr double kMostNats = -0.7;
// Relative width of the first, rough answer.
constexpr double kRough = 3e-3;
// Largest number of lattice points of all levels and attempts together, divided by `most_points`.
constexpr double kMostWork = 2;
// While all attempts together used fewer than this fraction of `most_points`, an attempt without progress does not end
// the search. Atoms may meet a coarse lattice by chance, and several finer ones are then no better.
constexpr double kLittleWork = 0.1;
constexpr int kAttempts = 12;
// Smallest factor by which Attempt::finer is multiplied after an attempt that reduced the width by less than a tenth.
constexpr double kCautious = 0.1;
// If the relative width of an interval exceeds kLost, the plan is assumed to have missed the answer. At most kHalvings
// bisections follow.
constexpr double kLost = 0.1;
constexpr int kHalvings = 24;
// ln of a tiny delta. Below this delta, the engine computes an upper bound by one moment instead of lattices.
constexpr double kNothing = -700;
// Smallest part of delta for which the finite losses are planned, far above the rounding of the mass at infinity.
constexpr double kRest = 1e-12;
// Number of times that estimate_grid_log_delta() cuts off right tails to improve a guess at delta.
constexpr int kCuts = 3;
// Precision, in nats, of a guess that estimate_grid_log_delta() finds by bisection. This precision suffices, because
// the plan is made for a delta 6 nats below the guess.
constexpr double kNats = 1;
// Smallest delta for which search_grid_epsilon() first compares delta with delta(0).
constexpr double kLarge = 0.02;
// If epsilon is more than this many standard deviations below the mean loss, delta may be 1 within the requested width.
// This is tested without a lattice.
constexpr double kDeviations = 8;
// Bounds at an epsilon may be read off the curve that was composed for another epsilon. If such bounds are wider than
// kRead requested widths, the epsilon gets a composition of its own.
constexpr double kRead = 2;
// After kWide consecutive epsilons whose bounds are too wide (kRead), no further bounds are read off a curve.
constexpr std::size_t kWide = 16;
// The normal approximation is tried for compositions of at least kLong steps if the relative width of the lattice's
// bounds exceeds kCoarse. The approximation is tried for at most kFewParts parts, because each part takes some
// hundredths of a second.
constexpr double kLong = 0x1p20, kCoarse = 1e-6;
constexpr std::size_t kFewParts = 32;
// Largest number of units of work for one call (runtime/work_budget.hpp). The first bound for a composition of a
// thousand distinct distributions takes most of these units, and other bounds take a hundredth of them.
constexpr std::int64_t kUnits = 6'000'000'000;
// Further units of work for the normal approximation. A simple distribution takes a hundredth of these units.
constexpr std::int64_t kNormalUnits = 1'500'000'000;

bool has_grid_part_without_losses(const std::vector<Part>& parts) {
    return std::ranges::any_of(parts, [](const Part& p) { return !p.losses->density && p.losses->atoms.empty(); });
}

// Tells whether some distribution is too extreme to be estimated by a sketch (a list of lumps of mass). No plan can be
// made for such a distribution.
bool has_grid_part_without_sketch(const std::vector<Part>& parts) {
    return std::ranges::any_of(parts, [](const Part& part) { return part.losses->get_loss_sketch().size == 0; });
}

std::atomic<std::size_t> crossed{0};

// Thrown if the lower end of an interval is above the upper end. One of the two ends is wrong, and it is unknown which
// one.
struct Crossed : std::exception {};

void require_ordered_grid_bounds(const Bounds& a) {
    if (!(a.lower > a.upper)) return;
    ++crossed;
    throw Crossed();
}

// Tells whether the normal approximation may give better bounds than a lattice, whose rounding errors add up over very
// many steps.
bool needs_normal_approximation(const std::vector<Part>& parts, const Bounds& a, double width) {
    double steps = 0;
    for (const Part& part : parts) steps += part.count;
    const bool narrow = a.upper < HUGE_VAL && a.upper - a.lower <= std::max(width, kCoarse) * a.upper;
    return steps >= kLong && parts.size() <= kFewParts && !narrow && a.lower < HUGE_VAL &&
           !has_grid_part_without_sketch(parts) && !has_grid_part_without_losses(parts);
}

// Intersects the bounds with another interval, since both contain the true value.
void narrow_grid_bounds(const Ends& by, Bounds& a) {
    if (!(by.lower > a.lower || by.upper < a.upper)) return;
    a.lower = std::max(a.lower, by.lower);
    a.upper = std::min(a.upper, by.upper);
    require_ordered_grid_bounds(a);
    a.lattice = a.upper - a.lower;
    a.rounding = a.wrapping = a.truncation = 0;
}

// Intersects the bounds with the bounds of the normal approximation. The approximation has its own units of work, so
// the approximation is used even if the budget is spent. The units of the approximation are charged too.
template <class Ask>
void narrow_by_normal_approximation(Ask ask, Bounds& a) {
    const work::Scoped<&work::Counter::limit> further(work::spent() + kNormalUnits);
    try {
        narrow_grid_bounds(ask(), a);
    } catch (const OutOfWork&) {
    }
}

// Returns a term of the error budget, or infinity if the term could not be computed.
double finite_grid_error(double term) {
    return term >= 0 ? term : HUGE_VAL;
}

// Returns max(0, 1 - e^epsilon), rounded down. No privacy profile is below it.
double trivial_grid_delta(double epsilon) {
    return std::max(0.0, -std::expm1(epsilon) * (1 - 4 * u));
}

// The upper and the lower privacy profile that one plan gives.
struct Curves {
    Profile upper, lower;
    double slack, infinity_upper, infinity_lower;
    std::size_t points;
    int levels;
    double work;

    Curves(const Composed& c, const Plan& plan)
        : upper(c.upper.inexact, c.upper.beyond, c.sums.anchor, c.h, plan.tilt),
          lower(c.lower.inexact, c.lower.beyond, c.sums.anchor, c.h, plan.tilt),
          slack(c.sums.slack * (1 + 0x1p-30)),
          infinity_upper(c.sums.bound_infinite_mass(true)),
          infinity_lower(c.sums.bound_infinite_mass(false)),
          points(plan.count_plan_points()),
          levels(static_cast<int>(plan.levels.size())),
          work(c.sums.work) {}

    void bound_grid_curve_epsilon(double delta, Bounds& a) const {
        const double least = delta - infinity_upper - kLeast, most = delta - infinity_lower;
        double high = least > 0 ? upper.invert_grid_profile(least * (1 - 4 * u), true) + slack : HUGE_VAL;
        double low = most > 0                ? lower.invert_grid_profile(most * (1 + 4 * u), false) - slack
                     : most < -8 * u * delta ? HUGE_VAL
                                             : 0;
        a.upper = std::isnan(high) ? HUGE_VAL : std::max(0.0, high);
        a.lower = low > 0 ? low : 0;
        require_ordered_grid_bounds(a);
    }

    void bound_grid_curve_delta(double epsilon, Bounds& a) const {
        const double shift = slack + 4 * u * std::abs(epsilon);
        const double high = upper.bound_delta_within_grid(epsilon - shift, true) + infinity_upper + kLeast;
        const double found = lower.bound_delta_within_grid(epsilon + shift, false) + infinity_lower;
        const double low = found > 1 ? 1 : found;  // exceeds 1 if a user's masses add up to more, and may be NaN
        a.lower = trivial_grid_delta(epsilon);
        a.upper = high <= 1 ? high : 1;  // 1 also if `high` is NaN
        if (low > a.lower) a.lower = low;
        require_ordered_grid_bounds(a);
    }

    // Returns -d ln delta / d epsilon, estimated from two points of the upper curve on either side of epsilon.
    double estimate_grid_curve_slope(double epsilon) const {
        const double r = (epsilon - upper.grid_point(0)) / upper.h;
        const auto n = static_cast<double>(upper.value.size());
        if (!(r > 0 && r < n - 3)) return 0;
        const auto j = static_cast<std::size_t>(r), step = std::max<std::size_t>(1, static_cast<std::size_t>(0.01 * n));
        const std::size_t from = j > step ? j - step : 0, to = std::min(j + step, upper.value.size() - 2);
        if (!(upper.value[to] > 0)) return 0;
        return upper.tilt + std::log(upper.value[from] / upper.value[to]) / (upper.h * static_cast<double>(to - from));
    }

    // Computes the terms of the error budget, as errors of delta.
    void fill_grid_error_budget(double epsilon, double delta, double slope, Bounds& a) const {
        const double unit = std::exp(upper.log_scale - upper.tilt * (epsilon - upper.anchor));
        a.rounding = finite_grid_error((upper.absolute + lower.absolute) * unit +
                                       (upper.relative + lower.relative + 2 * slack * slope) * delta);
        a.wrapping =
            finite_grid_error(upper.bound_grid_wrapping(epsilon, true) + lower.bound_grid_wrapping(epsilon, false));
        a.truncation = infinity_upper - infinity_lower;
        a.points = points;
        a.levels = levels;
        a.work = work;
    }
};

// Settings of one attempt. `asked` is the requested relative width, and `finer` is the fraction of this width that the
// lattice may cause. The mass outside of the windows may cause the fraction e^{-more_tail} of this width. The relative
// error of sums is assumed to be e^{-digits}.
struct Attempt {
    double asked, finer, more_tail, digits;
};

// Makes attempts, with finer lattices or wider windows, until the requested width is reached or further attempts do not
// help. The first attempt is a rough one that tells where on the curve the answer lies. `best` holds the best bounds
// found so far, even if the function ends by an exception.
template <class Once>
void refine_grid_bounds(Once once, double width, std::size_t most_points, bool several, Bounds& best) {
    Attempt next{std::max(width, kRough), 1, 3, 23};
    bool informed = false;
    double work = 0, got = HUGE_VAL, refined = 1;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const bool was_informed = informed;
        Bounds a = once(next, informed);
        a.lower = std::max(a.lower, best.lower);
        a.upper = std::min(a.upper, best.upper);
        require_ordered_grid_bounds(a);
        best = a;
        const double had = got, size = std::min(a.upper, DBL_MAX);
        got = (a.upper - a.lower) / a.upper;
        if (!(got > width)) break;
        work += a.work;
        if (work > kMostWork * static_cast<double>(most_points)) break;
        const bool capped = 2 * a.points > most_points, again = next.asked == width && was_informed;
        next.asked = width;
        if (a.wrapping > 0.3 * got * size && attempt > 0) {
            next.more_tail += 2 + std::log(std::min(1 + a.wrapping / (width * size), 1e300));
        } else if (a.rounding > 0.3 * got * size && attempt > 0 && next.digits > 10) {
            next.digits -= 4;
        } else if (again) {
            // If there are several distributions, one attempt without progress proves little, because the atoms of one
            // distribution may have missed the lattice by chance.
            const bool stuck =
                (attempt > 1 || !several) && got > 0.9 * had && work > kLittleWork * static_cast<double>(most_points);
            if (capped || stuck || a.rounding > 0.5 * (a.upper - a.lower)) break;
            // The width falls like h^2, or like h if atoms miss the lattice, where h is the lattice's spacing.
            const double order = refined < 1 ? std::clamp(std::log(got / had) / std::log(refined), 0.4, 1.0) : 1;
            const double finest = got > 0.9 * had ? kCautious : 1e-3;
            refined = std::clamp(std::pow(0.7 * width / got, 1 / order), finest, 0.5);
            next.finer *= refined;
        } else if (attempt > 0 && !informed) {
            next.more_tail += 6;
        }
    }
}

// A function that is called with the curves of each attempt.
using Reader = std::function<void(const Curves&)>;

Bounds search_grid_delta(const std::vector<Part>& parts, double epsilon, double width, std::size_t most_points,
                         const Reader& reader = {});

// Narrows an interval of epsilon by bisection with bounds on delta. Bisection is used if the plan was made for a part
// of the curve that is far from the answer.
void bisect_grid_epsilon(const std::vector<Part>& parts, double delta, double width, std::size_t most_points,
                         Bounds& a) {
    double work = a.work;
    for (int i = 0; i < kHalvings && a.upper - a.lower > width * a.upper && a.upper < HUGE_VAL; ++i) {
        const double middle = i == 0 && a.lower == 0 ? 0 : a.lower + 0.5 * (a.upper - a.lower);
        const Bounds here = search_grid_delta(parts, middle, kRough, most_points);
        work += here.work;
        if (here.lower > delta)
            a.lower = std::max(a.lower, middle);
        else if (here.upper <= delta)
            a.upper = middle;
        else if (i > 0)
            break;
        if (work > kMostWork * static_cast<double>(most_points)) break;
    }
}

// Bounds epsilon within the budget of work. `best` holds the best bounds found so far, even if the function ends by an
// exception.
void search_grid_epsilon(const std::vector<Part>& parts, double delta, double width, std::size_t most_points,
                         Bounds& best) {
    if (bound_grid_mass_at_infinity(parts).lower > delta) {
        best.lower = HUGE_VAL;
        return;
    }
    if (has_grid_part_without_losses(parts)) return;
    // If epsilon is above the largest sum of losses, delta is the mass at infinity.
    if (bound_grid_mass_at_infinity(parts).upper <= delta) best.upper = std::max(0.0, bound_largest_grid_sum(parts));
    if (has_grid_part_without_sketch(parts)) return;
    // If delta is large, delta(0) is often at most delta, and epsilon is then 0. The search below works with ln delta,
    // which is not suited to this case.
    if (delta > kLarge && search_grid_delta(parts, 0, kRough, most_points).upper <= delta) {
        best = {0, 0};
        return;
    }
    double log_finite = 0;
    for (const Part& part : parts) log_finite += part.count * log_grid_finite_mass(part.losses->infinity);
    // The mass at infinity takes a part of delta, and only the rest of delta is left for the finite losses.
    const double log_delta = std::log(std::max(delta + std::expm1(log_finite), kRest * delta));
    double low = 0, high = HUGE_VAL, slope = 0;
    const auto once = [&](const Attempt& now, bool& informed) {
        const double asked = now.asked;
        // Cutting off right tails changes ln delta by e^kCut = 0.01 times `asked`. This is little, because the width of
        // ln delta may be about tilt * epsilon times `asked`, and tilt * epsilon is rarely under 1.
        const Sketches sketches(parts, log_delta + std::log(asked) + kCut);
        const Saddle saddle = find_grid_saddle_at_delta(sketches, log_delta, 1 / asked);
        Target target{std::min(saddle.bound - 2 / saddle.tilt, sketches.largest_grid_loss()),
                      log_delta,
                      6 / saddle.tilt,
                      saddle.tilt,
                      saddle.tilt,
                      0,
                      now.finer,
                      now.digits,
                      0,
                      most_points};
        if (slope > 0)
            target.epsilon = 0.5 * (low + high), target.margin = 0.5 * (high - low) + 0.05 / slope,
            target.slope = slope;
        // make_grid_plan() uses a formula that holds for small changes of ln delta only. So log_width is limited.
        target.log_width =
            std::min(std::log(asked * std::max(std::abs(target.epsilon), 1e-6) * target.slope), kMostNats);
        target.log_tail = now.more_tail - std::min(0.0, target.log_width);
        const Plan plan = make_grid_plan(parts, sketches, target);
        const Curves curves(compose_on_grid(parts, plan), plan);
        Bounds a;
        curves.bound_grid_curve_epsilon(delta, a);
        curves.fill_grid_error_budget(a.upper, delta, target.slope, a);
        for (double* term : {&a.rounding, &a.wrapping, &a.truncation})
            *term = finite_grid_error(*term / (target.slope * delta));
        a.lattice = std::max(0.0, a.upper - a.lower - a.rounding - a.wrapping - a.truncation);
        low = std::max(low, a.lower), high = std::min(high, a.upper);
        // The slope is taken from the curve only if the interval for epsilon is short enough to lie within the lattice.
        if (high < HUGE_VAL && high - low < 3 / target.slope)
            slope = std::max(curves.estimate_grid_curve_slope(high), 0.1 * saddle.tilt);
        informed = slope > 0;
        return a;
    };
    refine_grid_bounds(once, width, most_points, parts.size() > 1, best);
    if (best.upper - best.lower > kLost * best.upper) bisect_grid_epsilon(parts, delta, width, most_points, best);
}

// Estimates ln delta(epsilon) by a bound from one moment E[e^{tY}] of the loss Y (Saddle). One moment bounds a heavy
// tail badly, so right tails of mass e^{cut} times a guess at delta are cut off first. The first guess is tiny, and
// each bound is the next guess. The cut for a much too large guess may remove all mass beyond epsilon. The next bound
// is then smaller than the mass that was cut off. In this case the function searches for the largest delta whose own
// cut leaves a bound of at least this delta.
double estimate_grid_log_delta(const std::vector<Part>& parts, double epsilon, double cut) {
    const auto bound = [&](double log_delta) {
        return std::clamp(find_grid_saddle_at_epsilon(Sketches(parts, log_delta + cut), epsilon).bound, -745.0, 0.0);
    };
    double low = kNothing, high = bound(low);
    for (int i = 1; i < kCuts; ++i) {
        const double found = bound(high);
        if (found < high + cut) {
            while (high - low > kNats) {
                const double middle = 0.5 * (low + high);
                (bound(middle) >= middle ? low : high) = middle;
            }
            return low;
        }
        high = found;
    }
    return high;
}

Bounds search_grid_delta(const std::vector<Part>& parts, double epsilon, double width, std::size_t most_points,
                         const Reader& reader) {
    const double least = trivial_grid_delta(epsilon);
    if (has_grid_part_without_losses(parts) || has_grid_part_without_sketch(parts))
        return {std::max(least, bound_grid_mass_at_infinity(parts).lower), 1};
    if (epsilon >= bound_largest_grid_sum(parts)) {
        const Infinity mass = bound_grid_mass_at_infinity(parts);
        const bool cut = std::ranges::any_of(parts, [](const Part& part) { return part.losses->cut; });
        const double upper = cut ? std::min(1.0, mass.upper + kLeast) : mass.upper;
        return {std::min(mass.upper, std::max(mass.lower, -std::expm1(epsilon) * (1 - 4 * u))), upper};
    }
    double log_delta = kNothing, slope = 0;
    const auto once = [&](const Attempt& now, bool& informed) {
        const double asked = now.asked;
        Target target{
            epsilon,    log_delta, 0, slope, 0, std::log(asked), now.finer, now.digits, now.more_tail - std::log(asked),
            most_points};
        if (slope == 0) {
            log_delta = estimate_grid_log_delta(parts, epsilon, std::log(asked) + kCut);
        }
        const Sketches sketches(parts, log_delta + std::log(asked) + kCut);
        const Saddle saddle = find_grid_saddle_at_epsilon(sketches, epsilon);
        target.best_tilt = saddle.tilt;
        if (epsilon > 0 && saddle.bound < kNothing) {
            Bounds a{bound_grid_mass_at_infinity(parts).lower,
                     bound_delta_by_grid_moment(parts, sketches, saddle.tilt, epsilon)};
            a.work = HUGE_VAL;  // prevents a second attempt
            return a;
        }
        if (slope == 0) {
            target.slope = saddle.tilt;
            target.log_delta = std::clamp(saddle.bound - 6, -745.0, -1e-3);
        }
        const Plan plan = make_grid_plan(parts, sketches, target);
        const Curves curves(compose_on_grid(parts, plan), plan);
        if (reader) reader(curves);
        Bounds a;
        curves.bound_grid_curve_delta(epsilon, a);
        curves.fill_grid_error_budget(epsilon, a.upper, target.slope, a);
        a.lattice = std::max(0.0, a.upper - a.lower - a.rounding - a.wrapping - a.truncation);
        if (a.lower > 0.1 * a.upper && a.upper > curves.infinity_upper) {
            slope = std::max(curves.estimate_grid_curve_slope(epsilon), 0.1 * saddle.tilt);
            log_delta = std::log(std::max(a.upper - curves.infinity_upper, 1e-3 * a.upper));
        }
        informed = slope > 0;
        return a;
    };
    Bounds a{least, bound_delta_below_grid_top(parts, epsilon)};
    try {
        const Cumulant all = Sketches(parts, kNothing).estimate_grid_cumulant(0);
        if (epsilon < all.mean - kDeviations * std::sqrt(all.variance))
            a.lower = std::max(a.lower, bound_delta_near_one_on_grid(parts, epsilon));
        if (1 - a.lower <= width) return a;
        refine_grid_bounds(once, width, most_points, parts.size() > 1, a);
    } catch (const OutOfWork&) {
    }
    if (a.upper - a.lower > width * a.upper) {
        const work::Aside last;
        a.lower = std::max(a.lower, bound_delta_near_one_on_grid(parts, epsilon));
        a.upper = std::min(a.upper, bound_delta_left_of_grid(parts, epsilon));
    }
    if (needs_normal_approximation(parts, a, width))
        narrow_by_normal_approximation([&] { return bound_delta_by_normal_approximation(parts, epsilon); }, a);
    require_ordered_grid_bounds(a);
    return a;
}

}  // namespace

std::size_t count_grid_crossings() {
    return crossed;
}

Bounds bound_grid_epsilon(const std::vector<Part>& parts, double delta, double width, std::size_t most_points) {
    const work::Budget budget(kUnits);
    Bounds best{0, HUGE_VAL};
    try {
        try {
            search_grid_epsilon(parts, delta, width, most_points, best);
        } catch (const OutOfWork&) {
        }
        if (needs_normal_approximation(parts, best, width))
            narrow_by_normal_approximation([&] { return bound_epsilon_by_normal_approximation(parts, delta); }, best);
    } catch (const Crossed&) {
        return {0, HUGE_VAL, 0, HUGE_VAL};
    }
    return best;
}

void bound_grid_deltas(const std::vector<Part>& parts, const double* epsilons, std::size_t n, double width,
                       double floor, std::size_t most_points, double* lower, double* upper) {
    for (std::size_t i = 0; i < n; ++i) lower[i] = trivial_grid_delta(epsilons[i]), upper[i] = 1;
    const auto narrow = [&](std::size_t i) { return upper[i] - lower[i] <= std::max(kRead * width * upper[i], floor); };
    for (std::size_t i = 0; i < n; ++i) {
        if (narrow(i)) continue;
        // The last bounds that search_grid_delta() computes are not charged. So the loop has to end once the budget is
        // spent.
        if (work::is_work_budget_exhausted()) break;
        // Bounds at larger epsilons are read off the same curves, until too many bounds are too wide (kWide).
        const Reader reader = [&](const Curves& curves) {
            for (std::size_t j = i + 1, wide = 0; j < n && wide < kWide; ++j) {
                Bounds a;
                curves.bound_grid_curve_delta(epsilons[j], a);
                lower[j] = std::max(lower[j], a.lower);
                upper[j] = std::min(upper[j], a.upper);
                wide = narrow(j) ? 0 : wide + 1;
            }
        };
        const work::Budget budget(kUnits);
        try {
            const Bounds a = search_grid_delta(parts, epsilons[i], width, most_points, reader);
            lower[i] = std::max(lower[i], a.lower);
            upper[i] = std::min(upper[i], a.upper);
        } catch (const Crossed&) {
            std::fill_n(upper, n, 1.0);
            std::fill_n(lower, n, 0.0);
            return;
        }
    }
}

Bounds bound_grid_delta(const std::vector<Part>& parts, double epsilon, double width, std::size_t most_points) {
    const work::Budget budget(kUnits);
    try {
        return search_grid_delta(parts, epsilon, width, most_points);
    } catch (const Crossed&) {
        return {trivial_grid_delta(epsilon), 1, 0, HUGE_VAL};
    }
}

}  // namespace tightdp::grid
