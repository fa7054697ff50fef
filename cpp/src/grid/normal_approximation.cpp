// Bounds by a normal approximation to the tilted sum of losses (docs/theory/grid.md, section 5.7). The tilt c
// multiplies the mass at a loss y by e^{cy}. The P-mass and the Q-mass of a set are its masses under the two
// distributions P and Q of a mechanism's output. One distribution of losses dominates another if its delta is nowhere
// smaller. A sketch is a choice of edges of cells that cover a distribution (Density::list_loss_sketch_edges).
#include "normal_approximation.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/compensated_sum.hpp"
#include "runtime/work_budget.hpp"
#include "tightdp/accounting/gaussian.hpp"
#include "tilt_estimates.hpp"
#include "transform_free_bounds.hpp"

namespace tightdp::grid {
namespace {

// Constant of the theorem of Berry and Esseen for summands with different distributions (Shevtsova 2010).
constexpr double kBerryEsseen = 0.56;
// Each cell of a distribution's sketch is split into kLeastSplit to kMostSplit equal pieces, about kCells pieces in
// all. Replacing the pieces by points then changes the variance by at most a relative 1e-6.
constexpr std::size_t kCells = 40'000, kLeastSplit = 8, kMostSplit = 64;
// Largest |c y|, over the losses y of a distribution, for which a tilt c is tried. Then e^{c y} neither overflows nor
// underflows.
constexpr double kMostExponent = 600;
// ln of the mass below which a point is treated as massless. Smaller masses underflow or have few digits.
constexpr double kLeastLog = -700;
// Largest ln((s + t) / s) of a cell at which its Q-mass does not underflow. Here s + t is the cell's P-mass, and s its
// Q-mass times e^{left edge} (CellBlock in loss_distributions/loss_distribution.hpp).
constexpr double kMostFall = 660;
// ln of the mass of the tail that is cut off when the tilt is estimated, relative to delta.
constexpr double kCut = -20;
// Relative width of epsilon at which bisection ends.
constexpr double kExact = 1e-13;
// Units of work (runtime/work_budget.hpp) for the exponentials of one point.
constexpr std::int64_t kPointUnits = 100;

// Returns e^t - 1 - t >= 0 with a relative error of at most 24 u, where u = 2^-53.
double approximation_exp_minus_tangent(double t) {
    if (std::abs(t) > 0.25) return std::expm1(t) - t;
    double sum = 1;
    for (int n = 16; n > 2; --n) sum = 1 + sum * t / n;
    return 0.5 * t * t * sum;
}

// A distribution of points that replaces a given distribution. Once the points are moved by `slack`, they dominate the
// given distribution or are dominated by it.
struct Points {
    struct Point {
        double loss, mass, error;  // the loss, its P-mass, and the absolute error of this mass
    };
    std::vector<Point> list;
    double slack = 0;
    double infinity = 0;
    double excess = 0;                  // P-mass minus Q-mass of all points
    double error = 0, other_error = 0;  // bounds on the errors of the P-mass and of the Q-mass of all points

    void put_approximation_point(double loss, double mass, double off) {
        if (mass > 0 || off > 0) list.push_back({loss, mass, off});
    }

    // Adds a tiny P-mass that lies somewhere in [from, to].
    void put_light_normal_approximation(double from, double to, double log_mass) {
        put_approximation_point(to, 0, 2 * std::exp(kLeastLog));
        error += 2 * std::exp(kLeastLog);
        add_normal_approximation_error(from, log_mass);
    }

    // Adds to `other_error` the Q-mass that belongs to a P-mass right of `from`, because this Q-mass is not in the
    // list. The Q-mass may be large where the P-mass is tiny.
    void add_normal_approximation_error(double from, double log_mass) {
        other_error += std::exp(std::min(log_mass - from + 1, 0.0));
    }
};

double largest_normal_approximation_mass(const LogMass& m) {
    return m.log > -HUGE_VAL ? std::exp(m.log) * (1 + m.rel) : 0;
}

void put_normal_approximation_density(const Density& density, bool upper, Points& out) {
    std::vector<double> edges;
    const std::vector<double> sketch = density.list_loss_sketch_edges();
    const std::size_t split = std::clamp(kCells / sketch.size(), kLeastSplit, kMostSplit);
    const double part = 1 / static_cast<double>(split);
    for (std::size_t i = 0; i + 1 < sketch.size(); ++i)
        for (std::size_t k = 0; k < split; ++k)
            edges.push_back(sketch[i] + (sketch[i + 1] - sketch[i]) * part * static_cast<double>(k));
    edges.push_back(sketch.back());
    edges = sort_loss_cell_edges(std::move(edges));
    const double ends = std::max(std::abs(edges.front()), std::abs(edges.back()));
    double slack = 0, moved = 0;
    for (std::size_t from = 0; from + 1 < edges.size(); from += CellBlock::kCells) {
        const std::size_t count = std::min(CellBlock::kCells, edges.size() - 1 - from);
        work::spend(kPointUnits * static_cast<std::int64_t>(count));
        CellBlock block;
        density.compute_loss_cells(edges.data() + from, count, block);
        slack = larger_loss_distribution_error(slack, block.slack);
        for (std::size_t i = 0; i < count; ++i) {
            const double left = edges[from + i], right = edges[from + i + 1], width = right - left;
            const double scale = std::exp(block.log_scale[i]), s = block.s[i] * scale, t = block.t[i] * scale;
            const double rel = block.rel[i] + (8 + 2 * std::abs(block.log_scale[i])) * u;
            const double log_mass = block.log_scale[i] + std::log(block.s[i] + block.t[i]);
            if (!(log_mass > kLeastLog)) {
                out.put_light_normal_approximation(left, right, log_mass);
                continue;
            }
            const double fall = std::min(std::log1p(t / s), kMostFall);
            if (fall == kMostFall) out.add_normal_approximation_error(left, log_mass);
            if (upper) {  // the cell is spread to its two ends (grid.md, section 2)
                const double all = s + t, share = std::clamp(t / -std::expm1(-width), 0.0, all);
                const double off = all * std::min(1.0, 4 * rel + 3 * block.slack / width + 16 * u);
                out.put_approximation_point(left, all - share, off);
                out.put_approximation_point(right, share, off);
            } else {  // the cell moves to one point, chosen so that its Q-mass stays the same
                const double inside = std::min(fall, width);
                out.put_approximation_point(left + inside, s + t, (s + t) * (rel + 8 * u));
                moved = std::max(moved, (3 * rel + 8 * u) * width + 2 * u * std::abs(left));
            }
        }
    }
    out.slack = larger_loss_distribution_error(out.slack, slack + moved + 8 * u * ends);
    // The upper distribution moves mass left of the edges up to the first edge, and splits mass right of them between
    // the last edge and infinity. The lower distribution drops the mass on both sides.
    const Density::Left before = density.measure_losses_below(edges.front());
    const Density::Right after = density.measure_losses_above(edges.back());
    const double p = largest_normal_approximation_mass(before.p), q = largest_normal_approximation_mass(before.q);
    const double stays = largest_normal_approximation_mass(after.s), leaves = largest_normal_approximation_mass(after.t), last = edges.back();
    out.error += p + stays + leaves;
    out.other_error += q + stays * std::exp(-last);
    if (upper) {
        out.put_approximation_point(edges.front(), 0, p);
        out.put_approximation_point(last, 0, stays);
        out.infinity += leaves;
    }
}

Points replace_by_normal_points(const LossDistribution& losses, bool upper) {
    Points out;
    out.infinity = losses.infinity * (upper ? 1 + losses.mass_rel + 4 * u : std::max(0.0, 1 - losses.mass_rel - 4 * u));
    out.excess = losses.minus_infinity - losses.infinity;
    out.error = losses.infinity * (losses.mass_rel + 4 * u) * 2;
    out.other_error = losses.minus_infinity * (losses.mass_rel + 4 * u) * 2;
    if (losses.density) put_normal_approximation_density(*losses.density, upper, out);
    for (const Atom& atom : losses.atoms) {
        if (!(atom.log_mass > kLeastLog)) {
            out.put_light_normal_approximation(atom.loss, atom.loss, atom.log_mass);
            continue;
        }
        const double mass = std::exp(atom.log_mass);
        out.put_approximation_point(atom.loss, mass, mass * (atom.rel + (4 + 2 * std::abs(atom.log_mass)) * u));
    }
    out.slack = larger_loss_distribution_error(out.slack, losses.loss_slack);
    return out;
}

// A number and a bound on its absolute error.
struct Value {
    double value, error;
};

// Returns the value with the smaller error, or the second value if the error of the first one is NaN.
Value choose_smaller_normal_error(const Value& one, const Value& other) {
    return one.error < other.error ? one : other;
}

// Moments of the loss Y of one distribution after tilting, and their errors. log_mass is ln M(c), where M(c) is the sum
// of the P-masses times e^{cY} over all finite losses. `third` is an upper bound on E|Y - mean|^3.
struct Tilted {
    double log_mass, log_error;
    double mean, mean_error, variance, variance_error;
    double third;
};

// Returns the moments at the tilt c. All moments are NaN if the distribution cannot be tilted by so much.
Tilted compute_tilted_normal_moments(const Points& points, double c) {
    constexpr Tilted nothing{NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double most = 0;
    for (const Points::Point& one : points.list) most = std::max(most, std::abs(c * one.loss));
    if (!(most < kMostExponent)) return nothing;
    work::spend(2 * kPointUnits * static_cast<std::int64_t>(points.list.size()));
    // M(c) - 1 and its derivative M'(c) are each computed twice: from terms that do not cancel, and from plain sums
    // over the P-masses. The result with the smaller error is used (grid.md, section 5.7).
    struct Sums {
        CompensatedSum sum, size, error;  // `size` is the sum of the magnitudes of the terms

        void add_normal_approximation_term(const Points::Point& at, double term) {
            sum += at.mass * term, size += at.mass * std::abs(term), error += at.error * std::abs(term);
        }
        Value sum_with_normal_error(double rel) const { return {sum, 1.01 * error + rel * size}; }
    } value, slope, plain_value, plain_slope;
    for (const Points::Point& at : points.list) {
        const double y = at.loss, back = approximation_exp_minus_tangent(-y), e = std::expm1(c * y);
        value.add_normal_approximation_term(at, approximation_exp_minus_tangent(c * y) + c * back);
        slope.add_normal_approximation_term(at, y * e + back);
        plain_value.add_normal_approximation_term(at, e);
        plain_slope.add_normal_approximation_term(at, y * (e + 1));
    }
    // Moving points by the slack changes their Q-mass, and so the excess of P-mass over Q-mass.
    const double excess_error = points.error + points.other_error + 1.1 * std::expm1(points.slack);
    const auto moved = [&](Value of, double by, double error) {
        return Value{of.value + by, of.error + error + 4 * u * (std::abs(by) + std::abs(of.value + by))};
    };
    const double rel = (64 + 8 * most) * u, gone = points.error + 4 * u * points.infinity;
    const Value less_one = choose_smaller_normal_error(
        moved(value.sum_with_normal_error(rel), c * points.excess - points.infinity, c * excess_error + 2 * gone),
        moved(plain_value.sum_with_normal_error(rel), -points.infinity, gone));
    const Value derivative = choose_smaller_normal_error(
        moved(slope.sum_with_normal_error(rel), points.excess, excess_error), plain_slope.sum_with_normal_error(rel));
    const double m = 1 + less_one.value, least = m - less_one.error;
    if (!(least > 0.01)) return nothing;
    Tilted out;
    out.log_mass = std::log1p(less_one.value);
    out.log_error = 1.01 * less_one.error / least + 4 * u * std::abs(out.log_mass);
    const double mean = derivative.value / m;
    out.mean = mean;
    out.mean_error = (derivative.error + std::abs(mean) * less_one.error) / least + 8 * u * std::abs(mean);
    CompensatedSum second, second_error, third;
    for (const auto& [y, mass, error] : points.list) {
        const double weight = std::exp(c * y), away = std::abs(y - mean), square = away * away;
        second += mass * weight * square, second_error += error * weight * square;
        third += (mass + error) * weight * square * away;
    }
    out.variance = second / m;
    out.variance_error = (second_error * 1.01 + rel * second + out.variance * less_one.error) / least +
                         2 * out.mean_error * out.mean_error + 8 * u * out.variance;
    const double root = std::cbrt(third * (1 + rel) / least) + out.mean_error;
    out.third = root * root * root * (1 + 1e-12);
    return out;
}

// The normal approximation to a composition, which gives upper or lower bounds. For upper bounds each distribution is
// replaced by points that dominate it, and for lower bounds by points that it dominates.
class NormalApproximation {
  public:
    NormalApproximation(const std::vector<Part>& parts, double c, bool upper) : c_(c), upper_(upper) {
        double variance = 0, variance_error = 0, mean_error = 0, third = 0, log_finite = 0, size = 0;
        for (const Part& part : parts) {
            const Points points = replace_by_normal_points(*part.losses, upper);
            const Tilted one = compute_tilted_normal_moments(points, c);
            known_ = known_ && std::isfinite(one.log_mass + one.third) && part.losses->total_rel == 0;
            log_ += part.count * one.log_mass;
            log_error_ += part.count * one.log_error;
            mean_ += part.count * one.mean;
            mean_error += part.count * one.mean_error;
            variance += part.count * one.variance;
            variance_error += part.count * one.variance_error;
            third += part.count * one.third;
            slack_ += part.count * points.slack;
            log_finite += part.count * std::log1p(-points.infinity);
            size += part.count * (std::abs(one.log_mass) + std::abs(one.mean));
        }
        const double sums = 4 * u * static_cast<double>(parts.size() + 2);
        log_error_ += sums * size;
        mean_error += sums * size;
        variance_error += sums * variance;
        slack_ *= 1 + sums;
        infinity_ = -std::expm1(log_finite) * (upper ? 1 + sums : 1 - sums);
        deviation_ = std::sqrt(variance);
        const double least = variance - variance_error;
        known_ = known_ && least > 0 && deviation_ > kGaussianMuMin && deviation_ < kGaussianMuMax &&
                 std::isfinite(log_ + log_error_ + slack_);
        if (!known_) return;
        apart_ = kBerryEsseen * third / (least * std::sqrt(least)) + kInvSqrt2Pi * mean_error / std::sqrt(least) +
                 0.25 * variance_error / least;
    }

    double normal_mean() const { return mean_; }
    double normal_deviation() const { return deviation_; }

    // Returns an upper bound on delta(epsilon) if `upper`, and a lower bound otherwise.
    double bound_normal_delta(double epsilon) const {
        const double trivial = upper_ ? 1 : 0;
        if (!known_) return trivial;
        const double at = upper_ ? epsilon - slack_ : epsilon + slack_, s = deviation_, c = c_;
        const double ahead = mean_ - at, lean = (c + 0.5) * s * s, other = lean - ahead;
        const double rounding = 8 * u * (std::abs(mean_) + std::abs(at) + lean);
        const double apart = apart_ + kInvSqrt2Pi * rounding / s;
        const Interval normal = gaussian_bounds(s, other).delta;
        const double front = log_ - c * at, gap = c * other - 0.5 * c * (c + 1) * s * s;
        const double error =
            log_error_ + 16 * u * (std::abs(log_) + std::abs(c * at) + std::abs(c * other) + c * (c + 1) * s * s + 1) +
            c * rounding;
        const double kernel = 2 * std::exp(log_grid_tilt_factor(c)) * (1 + 1e-12);
        const double found = upper_ ? infinity_ + std::exp(front + gap + error) * normal.upper +
                                          std::exp(front + error) * kernel * apart + kLeast
                                    : infinity_ + std::exp(front + gap - error) * normal.lower -
                                          std::exp(front + error) * kernel * apart;
        const double outward = upper_ ? found * (1 + 16 * u) : found * (found > 0 ? 1 - 16 * u : 1 + 16 * u);
        return outward >= 0 && outward <= 1 ? outward : trivial;  // the trivial bound also if `outward` is NaN
    }

  private:
    double c_;
    bool upper_, known_ = true;
    double log_ = 0, log_error_ = 0, mean_ = 0, deviation_ = 0, slack_ = 0, infinity_ = 0;
    double apart_ = 0;  // bound on the difference between the distribution functions of the sum and of the normal
};

// Returns the smallest epsilon, up to a relative kExact, at which the upper bound on delta is at most `delta`.
double search_upper_normal_epsilon(const NormalApproximation& normal, double delta) {
    if (normal.bound_normal_delta(0) <= delta) return 0;
    double high = std::max(normal.normal_mean(), 0.0), step = normal.normal_deviation();
    for (int i = 0; !(normal.bound_normal_delta(high) <= delta); ++i, high += step, step *= 2)
        if (i == 64) return HUGE_VAL;
    double low = 0;
    while (high - low > kExact * high) {
        const double middle = 0.5 * (low + high);
        if (!(low < middle && middle < high)) break;
        (normal.bound_normal_delta(middle) <= delta ? high : low) = middle;
    }
    return high;
}

// Returns a lower bound on epsilon, at most `most`. The search begins near the mean of the tilted distribution. The
// tilt does not suit epsilons far from this mean, so the bounds on delta are of no use there.
double search_lower_normal_epsilon(const NormalApproximation& normal, double delta, double most) {
    most = std::min(most, std::max(normal.normal_mean() + normal.normal_deviation(), 0.0));
    double high = most, low = most, step = 1e-9 * normal.normal_deviation();
    for (int i = 0; !(normal.bound_normal_delta(low) > delta); ++i, step *= 2) {
        if (i == 64 || low == 0) return 0;
        high = low;
        low = std::max(most - step, 0.0);
    }
    while (high - low > kExact * high) {
        const double middle = 0.5 * (low + high);
        if (!(low < middle && middle < high)) break;
        (normal.bound_normal_delta(middle) > delta ? low : high) = middle;
    }
    return low;
}

}  // namespace

Ends bound_delta_by_normal_approximation(const std::vector<Part>& parts, double epsilon) {
    double log_delta = -1;
    for (int i = 0; i < 2; ++i)
        log_delta =
            std::clamp(find_grid_saddle_at_epsilon(Sketches(parts, log_delta + kCut), epsilon).bound, -745.0, -1e-3);
    const double c = find_grid_saddle_at_epsilon(Sketches(parts, log_delta + kCut), epsilon).tilt;
    return {NormalApproximation(parts, c, false).bound_normal_delta(epsilon),
            NormalApproximation(parts, c, true).bound_normal_delta(epsilon)};
}

Ends bound_epsilon_by_normal_approximation(const std::vector<Part>& parts, double delta) {
    constexpr double kFinest = 1e9;
    const double log_delta = std::log(delta);
    const double c = find_grid_saddle_at_delta(Sketches(parts, log_delta + kCut), log_delta, kFinest).tilt;
    const NormalApproximation above(parts, c, true), below(parts, c, false);
    const double upper = search_upper_normal_epsilon(above, delta);
    return {search_lower_normal_epsilon(below, delta, upper), upper};
}

}  // namespace tightdp::grid
