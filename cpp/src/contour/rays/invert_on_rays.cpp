// Sums over the points of a ray (docs/theory/rays.md, section 1). A ray consists of the complex numbers zeta = e^{w + i
// ray_angle} for real w. The argument of the moment generating function is z = c + zeta, where c is the start of the
// ray (ray_plan.hpp). The steps of the composition have one of a few distributions j. Up to a known factor, the moment
// generating function of one step is 1 + D_j(zeta). The value at a point needs D_j for each j, which is a sum over the
// nodes of a path (turned_path.hpp).
#include "invert_on_rays.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "contour/inversion/invert.hpp"
#include "correlate.hpp"
#include "ray_plan.hpp"
#include "remainders.hpp"
#include "runtime/work_budget.hpp"
#include "single_steps.hpp"

namespace tightdp::contour {
namespace {

constexpr double u = kUnitRoundoff;
// Limits within which paths need few nodes. The first two are the smallest and the largest noise multiplier. The others
// are the largest magnitude of LogRatioLaw::mean, in nats and in standard deviations.
constexpr double kLeastNoise = 0.1, kMostNoise = 30, kFarthestMean = 200, kMostDeviations = 600;
// Largest number of distinct distributions. With more distributions, or with more than kMostProducts products of nodes
// and points, the grid engine is faster.
constexpr std::size_t kMostParts = 8;
// Largest expected number of steps whose sample holds the record. With more such steps, the inversion on a vertical
// line (contour.md) is suitable. The angle of the rays would then be too small for steps of a useful length.
constexpr double kMostInclusions = 20;
constexpr double kMostProducts = 1e7, kMostNodes = 2e5;
// Units of work (runtime/work_budget.hpp) for four products, and for the elementary functions (such as exp) of one
// point.
constexpr std::int64_t kFourProductUnits = 3, kPointUnits = 200;
// Largest logarithm of the bound on the product of (1 + D_j)^count over the distributions j. With a larger bound, all
// digits of the sum would be lost. kMostFront is the limit of two numbers: -ln delta, and -ln of the factor in front of
// the sum.
constexpr double kMostBound = 300, kMostFront = 600;
// Largest |zeta| of a point of the ray, so that its fourth power does not overflow (rays.md, section 1).
constexpr double kFarthest = 1e70;
// Limit of the predicted rounding error of the sums, relative to delta. If the prediction is larger, the sums are not
// computed. The prediction is right within a factor of 5 if the relative width of the result is about 1e-6.
constexpr double kMostRounding = 4e-6;
// Fraction of the tolerance that each kind of error may take.
constexpr double kShare = 0.1;

// A bound on the error of D_j(zeta), without rounding errors (rays.md, section 3). The bound at |zeta| = r is start +
// min(most, slope r).
struct FactorError {
    double start = 0, most = 0, slope = 0;
    double bound_ray_factor_error(double r) const { return start + std::min(most, slope * r); }
};

// One distribution, its path, and bounds on the error of its D_j.
struct Part {
    const LogRatioLaw& law;
    // Norms of the integrand on the path, and the larger of the norms on the two edges of the strip around the path.
    // The integrand is analytic in this strip, whose half-width is RayPlan::path_strip or less.
    PathNorms straight, edges;
    TurnedPath path;
    FactorError rule;  // error from the trapezoid rule on the path, and from the path's ends that are cut off
};

// The remainder prod (1 + D_j)^count - 1 - sum count D_j at one point, and bounds on its errors (rays.md, section 4.2).
struct PointSum {
    Complex log{0, 0}, rest{0, 0};         // sums of count ln(1 + D) and of count (ln(1 + D) - D)
    double log_error = 0, rest_error = 0;  // errors of these two sums
    double log_terms = 0, rest_terms = 0;  // sums of the magnitudes of their terms
    // `rule` and `round` are sums of count e / |1 + D|, where e is the error of D from the trapezoid rule (Part::rule)
    // or from rounding. rule_first and round_first are the same sums with each term multiplied by |D|.
    double rule = 0, rule_first = 0, round = 0, round_first = 0;

    void add_ray_factor(Complex d, double rule_error, double round_error, double count) {
        const Remainder l = ray_log_remainder(d);
        const double size = std::hypot(d.re, d.im), less = std::hypot(l.value.re, l.value.im);
        log.re += count * (d.re + l.value.re);
        log.im += count * (d.im + l.value.im);
        rest.re += count * l.value.re;
        rest.im += count * l.value.im;
        log_error += count * (l.error + 3 * u * (size + less));
        rest_error += count * (l.error + 3 * u * less);
        log_terms += count * (size + less);
        rest_terms += count * less;
        const double inverse = count / std::hypot(1 + d.re, d.im) * (1 + 1e-9);
        rule += rule_error * inverse;
        round += round_error * inverse;
        rule_first += rule_error * inverse * size;
        round_first += round_error * inverse * size;
    }

    struct Value {
        double re, im, rule, round;
    };
    Value compute_ray_remainder(std::size_t laws) const {
        const double sums = 2 * u * static_cast<double>(laws);
        const double of_log = log_error + sums * log_terms, of_rest = rest_error + sums * rest_terms;
        const Remainder e = ray_exp_remainder(log);
        const double size = std::exp(log.re + of_log);  // upper bound on |prod|
        // `product` is an upper bound on |prod - 1|, and `all` is the sum of the relative errors of the factors.
        const double product = std::hypot(e.value.re + log.re, e.value.im + log.im) + e.error + size * of_log +
                               2 * u * std::hypot(log.re, log.im);
        const double formula = std::exp(of_log) * product * of_log + of_rest + e.error +
                               2 * u * (std::hypot(e.value.re, e.value.im) + std::hypot(rest.re, rest.im));
        const double all = rule + round, second = size * all * std::exp(all);
        return {e.value.re + rest.re, e.value.im + rest.im, (rule * (product + second) + rule_first) * (1 + 1e-6),
                (round * (product + second) + round_first + formula) * (1 + 1e-6)};
    }
};

// The certified sum over one ray. The class has the members that contour/inversion/invert.hpp requires of a curve. An
// object keeps references to the distributions.
class RaySum {
  public:
    static constexpr double kEnough = 0;

    RaySum(const std::vector<LogRatioLaw>& laws, double shift, const RayPlan& plan, double tolerance);

    // Tells whether no limit is exceeded. Otherwise the sum was not computed, and evaluate_curve() must not be called.
    bool is_ray_sum_computed() const { return served_; }
    std::int64_t node_count() const;
    std::int64_t ray_points() const { return static_cast<std::int64_t>(re_.size()); }
    CurveValue evaluate_curve(const Plan& plan, double epsilon) const;

  private:
    bool choose_ray_points(double tolerance);
    void sum_ray_factors();
    double log_product_bound() const;

    RayPlan plan_;
    double shift_;  // -sum count ln(1 - q) over the distributions (lambda of rays.md, section 1)
    double gamma_;  // 1 + c, where c is the start of the ray
    const std::vector<LogRatioLaw>& laws_;
    std::vector<Part> parts_;
    bool served_ = false;
    // Spacing of the points' w, and 2 / (e^{2 pi strip / step} - 1). The latter bounds the error of the trapezoid rule
    // on the ray, where `strip` is RayPlan::ray_strip.
    double step_ = 0, rule_ = 0;
    std::int64_t first_ = 0, count_ = 0;
    double product_bound_ = 0;  // bound on |prod (1 + D)^count - 1 - sum count D| (T of rays.md, section 1)
    double left_ = 0;           // bound on the step times the sum over the points left of the first one
    // re_ and im_ hold zeta (prod (1 + D)^count - 1 - sum count D) / (z (z + 1)) for each point. rule_err_ and
    // round_err_ hold the errors of this value from Part::rule and from rounding. along_ and across_ are the real and
    // the imaginary part of zeta.
    std::vector<double> re_, im_, rule_err_, round_err_;
    std::vector<double> along_, across_;
};

RaySum::RaySum(const std::vector<LogRatioLaw>& laws, double shift, const RayPlan& plan, double tolerance)
    : plan_(plan), shift_(shift), gamma_(1 + plan.c), laws_(laws) {
    for (const LogRatioLaw& law : laws) parts_.push_back({law, {}, {}, {}, {}});
    served_ = choose_ray_points(tolerance);
    if (!served_) return;
    sum_ray_factors();
}

std::int64_t RaySum::node_count() const {
    std::int64_t all = 0;
    for (const Part& part : parts_) all += part.path.node_count();
    return all;
}

double RaySum::log_product_bound() const {
    double sum = 0;
    for (const Part& part : parts_) sum += part.law.count * std::log(part.straight.size);
    return sum;
}

// Chooses the step, the points and the nodes. Returns false if a limit is exceeded.
bool RaySum::choose_ray_points(double tolerance) {
    const double c = plan_.c, beta = plan_.path_angle, shifted = plan_.epsilon + shift_;
    const double log_front = -shift_ - c * shifted;
    if (!(shifted > 0 && -log_front < kMostFront && plan_.log_delta > -kMostFront)) return false;
    // `scale` is ln(F / e). Here F is the factor in front of the sum, and e is the change of delta that each kind of
    // error may cause.
    const double scale = log_front - std::log(kShare * tolerance) - plan_.log_delta;
    double counts = 0;
    for (const Part& part : parts_) counts += part.law.count;
    const double need = std::max(scale + std::log(20 * counts / c), 20.0);
    const auto norms = [&](const Part& part, double angle, PathNorms& out) {
        PathRange range;
        if (!path_range(part.law, gamma_, angle, 30, range)) return false;
        const PathNorms found = turned_path_norms(part.law, gamma_, angle, range);
        out = {std::max(out.size, found.size), std::max(out.first, found.first)};
        return true;
    };
    double small = 0;
    for (Part& part : parts_) {
        if (!norms(part, beta, part.straight)) return false;
        small += part.law.count * std::log1p(gamma_ * part.straight.first);
    }
    // A wide strip allows a long step, unless the norms on its edges are too large.
    double path_step = 0, strip = 0;
    for (double wide = plan_.path_strip; wide > 0.3 * plan_.path_strip; wide *= 0.75) {
        double moments = 0;
        std::vector<PathNorms> edges(parts_.size());
        for (std::size_t j = 0; j < parts_.size(); ++j) {
            if (!norms(parts_[j], beta - wide, edges[j]) || !norms(parts_[j], beta + wide, edges[j]))
                moments = HUGE_VAL;
            moments += parts_[j].law.count * (gamma_ * edges[j].first + 2 * edges[j].size);
        }
        const double step = 2 * kPi * wide / std::max(scale + std::log(20 * moments / c), 10.0);
        if (!(step > path_step)) continue;
        path_step = step;
        strip = wide;
        for (std::size_t j = 0; j < parts_.size(); ++j) parts_[j].edges = edges[j];
    }
    const double log_bound = log_product_bound();
    if (!(log_bound < kMostBound && path_step > 0)) return false;
    product_bound_ = std::exp(log_bound) + 1;
    for (const Part& part : parts_) product_bound_ += part.law.count * (part.straight.size + 1);
    product_bound_ *= 1 + 1e-9;
    const double log_t = std::log(product_bound_);
    const double ray_gain = std::max(scale + log_t - std::log(c), 10.0);
    step_ = std::min(2 * kPi * plan_.ray_strip / ray_gain, path_step);
    // The points begin where the sum to their left is small enough, and end where the integrand has decayed.
    const double falls = shifted * std::cos(plan_.ray_angle);
    const double low = std::log(c) + std::min(0.0, std::log(c) - scale - std::log(std::expm1(std::min(small, 300.0))));
    const double high = std::max(c, std::max(scale + log_t - std::log(falls * c * c), 1.0) / falls);
    first_ = static_cast<std::int64_t>(std::floor(low / step_));
    const double points = std::ceil(std::log(high) / step_) - static_cast<double>(first_) + 2;
    if (!(points > 0 && points < kMostNodes && high < kFarthest)) return false;
    count_ = (static_cast<std::int64_t>(points) + kPointBlock - 1) / kPointBlock * kPointBlock;
    std::vector<PathRange> ranges;
    double nodes = 0;
    for (const Part& part : parts_) {
        PathRange range;
        if (!path_range(part.law, gamma_, beta, need, range)) return false;
        ranges.push_back(range);
        nodes += (range.right - range.left) / step_ + 3;
    }
    if (!(nodes > 0 && nodes < kMostNodes && nodes * static_cast<double>(count_) < kMostProducts)) return false;
    const double turns = 2 * kPi * strip / step_, ray_turns = 2 * kPi * plan_.ray_strip / step_;
    const double of_path = 2 / std::expm1(turns) * (1 + 1e-9);
    rule_ = 2 / std::expm1(ray_turns) * (1 + 1e-9);
    double log_left = 0, rounding = 0, product = 0;
    const double r0 = std::exp(step_ * static_cast<double>(first_)) * (1 + 1e-9);
    for (std::size_t j = 0; j < parts_.size(); ++j) {
        Part& part = parts_[j];
        part.path = turned_path(part.law, gamma_, beta, plan_.ray_angle + beta, step_, ranges[j]);
        const TurnedPath& path = part.path;
        if (!(path.size < HUGE_VAL)) return false;
        // The next lines bound the error of the trapezoid rule, and the integrals over the ends of the path, which the
        // nodes leave out (rays.md, sections 3.2 and 3.3).
        part.rule.start =
            of_path * gamma_ * part.edges.first + gamma_ * path.tails.left.first + 4 * path.tails.right.size;
        part.rule.most = of_path * 2 * part.edges.size + 2 * path.tails.left.size;
        part.rule.slope = of_path * part.edges.first + path.tails.left.first;
        const double most = std::abs(path.start) + part.rule.start + 2 * u * gamma_ * path.first_rounding;
        log_left += part.law.count * std::log1p(most + r0 * part.straight.first);
        rounding +=
            part.law.count * (gamma_ * path.first_rounding + std::min(2 * path.rounding, c * path.first_rounding));
        product += part.law.count * std::log1p((gamma_ + c) * path.first_moment);
    }
    // The predicted rounding error is about the integral of the errors of the points.
    rounding *= std::expm1(std::min(product, 300.0)) * u / c * std::exp(log_front - plan_.log_delta);
    if (plan_.known && !(rounding < kMostRounding)) return false;
    left_ = std::expm1(log_left * (1 + 1e-9)) * r0 / (c * c) * (1 + 1e-9);
    return left_ < HUGE_VAL;
}

// Computes the sums over the nodes for all points, and from them the terms of the sum over the points.
void RaySum::sum_ray_factors() {
    const double c = plan_.c, turn = plan_.ray_angle + plan_.path_angle;
    const std::int64_t n = count_;
    work::spend(kPointUnits * n);
    std::int64_t lowest = INT64_MAX, highest = INT64_MIN;
    for (const Part& part : parts_) {
        lowest = std::min(lowest, part.path.first);
        highest = std::max(highest, part.path.first + part.path.node_count());
    }
    const std::int64_t kernel = highest - lowest + n;
    work::spend(kPointUnits * kernel);
    std::vector<double> k_re(kernel), k_im(kernel);
    const double cosine = std::cos(turn), sine = std::sin(turn);
    for (std::int64_t i = 0; i < kernel; ++i) {
        const double size = std::exp(std::min(step_ * static_cast<double>(first_ + lowest + i), 700.0));
        const Complex k = path_expm1(size * cosine, std::min(size, 1e15) * sine);
        k_re[i] = k.re;
        k_im[i] = k.im;
    }
    std::vector<PointSum> sums(n);
    std::vector<double> f_re(n), f_im(n);
    const double bend = std::max(1.0, 1 / (2.718 * -cosine));
    for (const Part& part : parts_) {
        const TurnedPath& path = part.path;
        work::spend(kFourProductUnits * (path.node_count() / 4 + 1) * n);
        const std::int64_t offset = path.first - lowest;
        TIGHTDP_SELECT_SIMD(correlate_ray_nodes)
        (path.re.data(), path.im.data(), path.node_count(), k_re.data() + offset, k_im.data() + offset, n, f_re.data(),
         f_im.data());
        for (std::int64_t j = 0; j < n; ++j) {
            const double w = step_ * static_cast<double>(first_ + j), r = std::exp(w) * (1 + 1e-12);
            const double turned = bend * std::abs(w);
            const double round =
                1.5 * u *
                    (gamma_ * path.first_rounding + std::min(2 * (path.rounding + turned * path.size),
                                                             r * (path.first_rounding + turned * path.first_moment))) +
                1e-300;
            sums[j].add_ray_factor({path.start + f_re[j], f_im[j]}, part.rule.bound_ray_factor_error(r) * (1 + 1e-9), round,
                                   part.law.count);
        }
    }
    re_.resize(n);
    im_.resize(n);
    rule_err_.resize(n);
    round_err_.resize(n);
    along_.resize(n);
    across_.resize(n);
    const double ray_cosine = std::cos(plan_.ray_angle), ray_sine = std::sin(plan_.ray_angle);
    for (std::int64_t j = 0; j < n; ++j) {
        const double w = step_ * static_cast<double>(first_ + j), r = std::exp(w);
        const double x = r * ray_cosine, y = r * ray_sine, a = c + x;
        along_[j] = x;
        across_[j] = y;
        // t_re + i t_im is the factor zeta / (z (z + 1)), where z = a + iy.
        const double p = a * (a + 1) - y * y, s = y * (2 * a + 1), norm = (a * a + y * y) * ((a + 1) * (a + 1) + y * y);
        const double t_re = (x * p + y * s) / norm, t_im = (y * p - x * s) / norm;
        const PointSum::Value v = sums[j].compute_ray_remainder(parts_.size());
        re_[j] = v.re * t_re - v.im * t_im;
        im_[j] = v.re * t_im + v.im * t_re;
        const double weight = r / std::sqrt(norm) * (1 + 1e-9);
        rule_err_[j] = weight * v.rule;
        round_err_[j] = weight * (v.round + std::hypot(v.re, v.im) * u * (4 * std::abs(w) + 90));
    }
}

// Computes the sum at epsilon and bounds on its errors (rays.md, section 4.3).
CurveValue RaySum::evaluate_curve(const Plan&, double epsilon) const {
    CurveValue v{};
    const double c = plan_.c, shifted = epsilon + shift_;
    if (epsilon < 0) {  // only a trivial bound is known: delta is between 1 - e^epsilon and 1
        const double half = 0.5 * std::exp(epsilon);
        v.delta = 1 - half;
        v.slope = -half;
        v.truncation = half;
        v.rounding = 4 * u;
        return v;
    }
    const std::int64_t n = ray_points();
    work::spend(kPointUnits / 4 * n);
    double sum = 0, slope = 0, rule = 0, round = 0, size = 0;
    const double more = 40 + static_cast<double>(parts_.size());
    for (std::int64_t j = 0; j < n; ++j) {
        const double x = along_[j], y = across_[j], fall = std::exp(-x * shifted);
        const double angle = y * shifted, co = fall * std::cos(angle), si = fall * std::sin(angle);
        // The term is (re + i im) e^{-zeta E} with E = shifted.
        const double real = re_[j] * co + im_[j] * si, imaginary = im_[j] * co - re_[j] * si;
        sum += imaginary;
        slope += c * imaginary + x * imaginary + y * real;
        const double modulus = (std::abs(re_[j]) + std::abs(im_[j])) * fall;
        const double w = std::abs(step_ * static_cast<double>(first_ + j));
        size += modulus;
        rule += rule_err_[j] * fall;
        round += round_err_[j] * fall + modulus * u * ((x + y) * shifted * (w + more) + 30);
    }
    round += size * u * (static_cast<double>(n) + 10);
    const double front = std::exp(-shift_ - c * shifted) / kPi, unit = front * step_;
    const SingleSteps first = single_steps(laws_, shifted, shift_);
    const double middle = 0.5 * (first.delta.lower + first.delta.upper);
    v.delta = middle + unit * sum;
    v.slope = first.slope - unit * slope;
    const double front_rounding = u * ((more + 4) * (shift_ + c * shifted) + 40);
    const double inflate = (1 + 2 * front_rounding) * (1 + 1e-6);
    const double r1 = std::hypot(along_[n - 1], across_[n - 1]), falls = shifted * along_[n - 1] / r1;
    v.truncation = inflate * front * (left_ + product_bound_ * std::exp(-falls * r1 * (1 - 1e-9)) / (falls * r1 * r1));
    v.quadrature = inflate * (unit * rule + front * rule_ * product_bound_ * kPi / (2 * c));
    v.rounding = inflate * (unit * (round + std::abs(sum) * 2 * front_rounding) +
                            0.5 * (first.delta.upper - first.delta.lower) + 4 * u * (middle + std::abs(v.delta)));
    return v;
}

// Number of rounds of planning. The first plan is based on the part of delta that comes from single steps
// (single_steps.hpp), and each later plan on the result of the round before.
constexpr int kRounds = 3;
// No further plan is made if ln delta of the plan is wrong by at most this amount.
constexpr double kNearPlan = 2;

}  // namespace

bool can_invert_on_rays(const Composition& composition) {
    const auto serves = [](const Sampled& s) {
        if (s.count != std::floor(s.count) || s.sigma < kLeastNoise || s.sigma > kMostNoise) return false;
        const double mean = std::abs(LogRatioLaw(s).mean);
        return mean < kFarthestMean && mean * s.sigma < kMostDeviations;
    };
    const std::span<const Sampled> sampled = composition.sampled;
    double inclusions = 0;
    for (const Sampled& s : sampled) inclusions += s.count * s.q;
    return inclusions < kMostInclusions && composition.direction == Direction::remove &&
           composition.gaussian_mu2 == 0 && !sampled.empty() && sampled.size() <= kMostParts &&
           std::all_of(sampled.begin(), sampled.end(), serves);
}

Result invert_on_rays(const Composition& composition, double tolerance, bool by_delta, double at) {
    std::vector<LogRatioLaw> laws;
    double shift = 0;
    for (const Sampled& s : composition.sampled) {
        laws.emplace_back(s);
        shift -= s.count * std::log1p(-s.q);
    }
    Result best;
    best.status = Status::slow_decay;
    if (!by_delta && at < 0) return best;  // the sum would be no better than the trivial bounds
    double epsilon = by_delta ? single_steps_epsilon(laws, shift, at) : at;
    double log_delta =
        by_delta ? std::log(at) : std::log(std::max(single_steps(laws, at + shift, shift).delta.upper, 1e-290));
    for (int round = 0; round < kRounds; ++round) {
        const RayPlan plan = plan_rays(laws, shift, epsilon, log_delta, by_delta || round > 0);
        RaySum sum(laws, shift, plan, tolerance);
        if (!sum.is_ray_sum_computed()) break;
        Plan outer;
        outer.c = plan.c;
        outer.epsilon = plan.epsilon;
        double found = at;
        Result r = by_delta ? invert_for_epsilon(sum, outer, at, found) : invert_for_delta(sum, outer, at);
        r.nodes = sum.node_count();
        r.abscissae = sum.ray_points();
        const bool better = r.status == Status::certified &&
                            (best.status != Status::certified || r.upper - r.lower < best.upper - best.lower);
        if (better) best = r;
        const double reached = by_delta ? std::log(at) : std::log(std::max(r.upper, 1e-290));
        const double off = by_delta ? (found - epsilon) * plan.c : reached - log_delta;
        if (!(std::abs(off) > kNearPlan) || !(std::abs(found) < HUGE_VAL)) break;
        if (by_delta) epsilon = std::max(found, 1e-12);
        log_delta = reached;
    }
    return best;
}

}  // namespace tightdp::contour
