// Bounds for a run that grows. A line is the set of abscissae z = c + i m step at which M, the moment generating
// function of the privacy loss, is inverted. A column belongs to a mechanism. The column holds M(z)/M(c) - 1 for one
// step of this mechanism, at each z of a line (growing_run.hpp).
#include "growing_run.hpp"

#include <algorithm>
#include <cmath>

#include "contour/inversion/invert.hpp"
#include "direct_bounds.hpp"
#include "solve_within_budget.hpp"

namespace tightdp::contour {
namespace {

// A new line leaves room for the run to grow. The distance between abscissae is kFinerStep times the distance that the
// current run needs. The nodes of the quadrature are precise enough for kMoreSteps times as many steps.
constexpr double kFinerStep = 0.75, kMoreSteps = 4;
// Largest number of columns that a line keeps outside its sums. A run typically alternates between at most this many
// mechanisms, or has a new mechanism at every step.
constexpr std::size_t kMostLatest = 4;
// A new line is made if the relative width of a result exceeds both kKeptWidth and kWider times the relative width of
// the line's first result.
constexpr double kKeptWidth = 1e-10, kWider = 4;
// A new line is made once the run has grown by this factor. The new line is shorter, so that further steps cost less.
constexpr double kOutgrown = 1.5;

void add_log_mgf_times(CertifiedLogMgf& sum, const CertifiedLogMgf& one, double count) {
    sum.value += count * one.value;
    sum.rule += count * one.rule;
    sum.rounding += count * one.rounding + kUnitRoundoff * (std::abs(count * one.value) + 2 * std::abs(sum.value));
}

// The two members of a Curve, the interface of inversion/plan.hpp, that invert_for_epsilon() needs.
struct KeptCurve {
    static constexpr double kEnough = 0.01;
    const HostSum& sum;
    CurveValue evaluate_curve(const Plan& plan, double epsilon) const { return sum.evaluate_curve(plan, epsilon); }
};

}  // namespace

void GrowingRun::LineContribution::add_contribution(const LineContribution& one, double count) {
    add_log_mgf_times(at, one.at, count);
    add_log_mgf_times(left, one.left, count);
    add_log_mgf_times(right, one.right, count);
    decay += count * one.decay;
}

void GrowingRun::Column::add_to_ratios(std::vector<LogRatio>& ratios) const {
    for (std::size_t m = 0; m < re.size(); ++m)
        ratios[m + 1].add_trapezoid_log_power(re[m], im[m], rule, rounding[m], count);
}

void GrowingRun::add_steps(const Sampled& part) {
    const auto [at, is_new] = index_.try_emplace({part.sigma, part.q}, parts_.size());
    if (is_new)
        parts_.push_back(part);
    else
        parts_[at->second].count += part.count;
    total_count_ += part.count;
    distance_ += part.count * bound_contour_step_delta_directly(part.sigma, part.q);
    most_ += part.count * bound_contour_add_loss_directly(part.q);
    ++additions_;
    std::optional<Line> line = std::exchange(line_, {});  // the line is lost if extend_line() is interrupted
    if (!line) return;
    extend_line(*line, part);
    line_ = std::move(line);
}

GrowingRun::Column GrowingRun::make_column(const Line& line, const Sampled& given) const {
    const Plan& plan = line.plan;
    const double end = plan.step * static_cast<double>(plan.count);
    const Pair pair{given.sigma, given.q, direction_};
    Column out{{}, given.sigma, given.q, given.count, {}, {}, {}, HUGE_VAL};
    SampledMgf part(pair, 1);
    for (std::vector<double>* array : {&out.re, &out.im, &out.rounding}) array->assign(plan.count, 0.0);
    if (!part.place_nodes(std::max(plan.right.c, plan.c), end, line.log_inverse, kMaxNodes) ||
        part.largest_mgf_node_loss() * end > kMostPhase) {
        out.at.rule = HUGE_VAL;  // an infinite error, with which nothing is certified
        return out;
    }
    out.rule =
        part.compute_mgf_ratios(plan.c, plan.step, plan.count, out.re.data(), out.im.data(), out.rounding.data());
    out.at = part.log_mgf(plan.c);
    if (plan.left.c > 0) out.left = part.log_mgf(plan.left.c);
    out.right = part.log_mgf(plan.right.c);
    out.decay = MovedLineTail(pair, plan.c, end, line.exact).log_decay(end);
    return out;
}

void GrowingRun::extend_line(Line& line, const Sampled& part) const {
    for (Column& known : line.latest)
        if (known.sigma == part.sigma && known.q == part.q) {
            known.count += part.count;
            return;
        }
    if (line.latest.size() == kMostLatest) {  // the oldest column is added to the sums
        const Column& oldest = line.latest.front();
        oldest.add_to_ratios(line.ratios);
        line.add_contribution(oldest, oldest.count);
        line.latest.erase(line.latest.begin());
    }
    line.latest.push_back(make_column(line, part));
}

std::optional<GrowingRun::Line> GrowingRun::make_line(double delta, double tolerance) const {
    for (const Effort& effort : list_composition_efforts({parts_, mu2_, direction_}))
        if (std::optional<Line> line = this->make_line(delta, effort.looser * tolerance, effort.products, true))
            return line;
    return make_line(delta, tolerance, kWhole.products, false);
}

std::optional<GrowingRun::Line> GrowingRun::make_line(double delta, double tolerance, double most_products,
                                                      bool groups) const {
    CompositionMgf mgf({parts_, mu2_, direction_}, groups, most_products);
    Line line;
    Plan& plan = line.plan;
    // If there is no saddle point, invert_contour_curve() solves twice and takes the second contour from the first
    // solution (inversion/invert.hpp). Then no line can be kept.
    if (Planner<CompositionMgf>(mgf, tolerance, plan).make_plan(true, std::log(delta), 1) != Status::certified ||
        !plan.consistent)
        return {};
    plan.step *= kFinerStep;
    plan.count = static_cast<std::int64_t>(std::ceil(static_cast<double>(plan.count) / kFinerStep)) + 1;
    line.log_inverse = std::log(32 * (1 + kMoreSteps * total_count_) / tolerance) + 8;
    const double each = -plan.log_decay / (1 + kMoreSteps * total_count_);
    line.exact = std::max(std::log(1e3 / each), each + 7);
    line.epsilon = plan.epsilon;
    line.steps = total_count_;
    if (parts_.size() <= kMostLatest) {  // with a column for each part, more steps of these parts need no new column
        line.ratios.resize(plan.count + 1);
        for (const Sampled& part : parts_) {
            line.latest.push_back(make_column(line, part));
            if (!(line.latest.back().at.rule < HUGE_VAL)) return {};
        }
        return line;
    }
    if (mgf.place_nodes_for_plan(plan, line.log_inverse) != Status::certified) return {};
    line.ratios = mgf.log_mgf_ratios(plan);
    for (const LogRatio& one : line.ratios)
        if (!(one.rule + one.round < HUGE_VAL)) return {};
    line.at = mgf.sampled_log_mgf(plan.c);
    if (plan.left.c > 0) line.left.value = mgf.sampled_log_mgf_upper(plan.left.c);
    line.right.value = mgf.sampled_log_mgf_upper(plan.right.c);
    line.decay = mgf.decay_beyond(plan, plan.step * static_cast<double>(plan.count), line.exact);
    return line;
}

Result GrowingRun::solve_on_line(Line& line, double delta) {
    Plan plan = line.plan;
    const double mu2 = mu2_, end = plan.step * static_cast<double>(plan.count);
    std::vector<LogRatio> ratios = line.ratios;
    LineContribution all = line;
    for (const Column& one : line.latest) {
        work::spend(3 * kAbscissaUnits * plan.count);
        one.add_to_ratios(ratios);
        all.add_contribution(one, one.count);
    }
    const auto with_plain = [&](CertifiedLogMgf k, double c) {
        const double value = 0.5 * mu2 * c * (c + 1);
        add_log_mgf_times(k, {value, 0, 10 * kUnitRoundoff * value}, 1);
        return k;
    };
    plan.k = with_plain(all.at, plan.c);
    plan.left.k = with_plain(all.left, plan.left.c).upper();
    plan.right.k = with_plain(all.right, plan.right.c).upper();
    plan.log_decay = -(all.decay + 0.5 * mu2 * end * end) * (1 - 1e-9);
    plan.epsilon = line.epsilon;
    sum_.set_trapezoid_ordinates(ratios, plan, mu2);
    double epsilon;
    Result r = invert_for_epsilon(KeptCurve{sum_}, plan, delta, epsilon);
    r.abscissae = plan.count + 1;
    if (r.status == Status::certified) line.epsilon = epsilon;
    return r;
}

// Computes the result on the kept line. Makes a new line if there is none, if the run has outgrown the kept line, or if
// the result is too wide.
Result GrowingRun::answer_on_line(std::optional<Line>& line, double delta, double tolerance) {
    const auto relative = [](const Result& r) {
        return r.status == Status::certified && r.lower > 0 ? (r.upper - r.lower) / r.upper : HUGE_VAL;
    };
    if (line && total_count_ <= kOutgrown * line->steps) {
        const Result r = solve_on_line(*line, delta);
        if (!(relative(r) > std::max(kKeptWidth, kWider * line->width))) return r;
    }
    line = this->make_line(delta, tolerance);
    if (!line) return {};
    const Result r = solve_on_line(*line, delta);
    line->width = relative(r);
    return r;
}

Result GrowingRun::epsilon(double delta, double tolerance) {
    const double more = 1 + 2 * kUnitRoundoff * static_cast<double>(additions_ + 8);
    if (distance_ * more + std::erf(0.35355339059327376220 * std::sqrt(mu2_)) <= delta * (1 - 1e-12)) return {};
    std::optional<Line> line = std::exchange(line_, {});  // the line is lost if there is no result
    Result r = solve_within_budget([&] { return answer_on_line(line, delta, tolerance); });
    if (r.status == Status::certified) line_ = std::move(line);
    if (direction_ == Direction::add && mu2_ == 0) r.upper = std::min(r.upper, most_ * more);
    return r;
}

}  // namespace tightdp::contour
