#include "growing.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "contour/inversion/invert.hpp"
#include "direct_bounds.hpp"
#include "runtime/team.hpp"
#include "runtime/work.hpp"

namespace tightdp::contour {
namespace {

// Of work, for one question (engine.cpp).
constexpr std::int64_t kUnits = 1'000'000'000;
// A line is made for runs that grow: aliases are further away than this run needs, and nodes serve more steps.
constexpr double kFinerStep = 0.75, kMoreSteps = 4;
// Columns that are kept apart: a run alternates between so many mechanisms, or has a new one every step.
constexpr std::size_t kMostLatest = 4;
// Answers that are wider, and wider than the line's first one by this factor, ask for a new line.
constexpr double kKeptWidth = 1e-10, kWider = 4;
// A run that is longer by this factor is served by a shorter line, on which each further step costs less.
constexpr double kOutgrown = 1.5;

void add_times(CertifiedLogMgf& sum, const CertifiedLogMgf& one, double count) {
    sum.value += count * one.value;
    sum.rule += count * one.rule;
    sum.rounding += count * one.rounding + kUnitRoundoff * (std::abs(count * one.value) + 2 * std::abs(sum.value));
}

// The ordinates of one question: what inversion/invert.hpp asks of a curve that is solved for epsilon.
struct KeptCurve {
    static constexpr double kEnough = 0.01;
    Ordinates ordinates;
    CurveValue value(const Plan& plan, double epsilon) const {
        work::spend(20 * plan.count);
        return value_at(SoloTeam{}, ordinates, plan, 2, epsilon);
    }
};

}  // namespace

void Growing::add(const Sampled& part) {
    const auto [at, is_new] = index_.try_emplace({part.sigma, part.q}, parts_.size());
    if (is_new)
        parts_.push_back(part);
    else
        parts_[at->second].count += part.count;
    total_count_ += part.count;
    distance_ += part.count * total_variation(part.sigma, part.q);
    most_ += part.count * largest_add_loss(part.q);
    ++additions_;
    if (!line_) return;
    try {
        extend(*line_, part);
    } catch (...) {
        line_.reset();
        throw;
    }
}

void Growing::add_plain(double mu2) {
    // Compensated, as the sum is to be exact within 4u (contour.md 5.3).
    const double sum = mu2_ + mu2;
    mu2_lost_ += mu2_ >= mu2 ? (mu2_ - sum) + mu2 : (mu2 - sum) + mu2_;
    mu2_ = sum;
}

Growing::Column Growing::column(const Line& line, const Sampled& given) const {
    const Plan& plan = line.plan;
    const double end = plan.step * static_cast<double>(plan.count);
    Column out{given.sigma, given.q, given.count, {}, {}, {}, HUGE_VAL, {}, {}, {}, 0};
    Part part(given.sigma, given.q, 1, pair_);
    for (std::vector<double>* array : {&out.re, &out.im, &out.rounding}) array->assign(plan.count, 0.0);
    if (!part.place(std::max(plan.right.c, plan.c), end, line.log_inverse, kMaxNodes) ||
        part.largest_loss() * end > kMostPhase) {
        out.at.rule = HUGE_VAL;  // certifies nothing
        return out;
    }
    out.rule = part.products(plan.c, plan.step, plan.count, out.re.data(), out.im.data(), out.rounding.data());
    out.at = part.log_mgf(plan.c);
    if (plan.left.c > 0) out.left = part.log_mgf(plan.left.c);
    out.right = part.log_mgf(plan.right.c);
    out.decay = part.tail(plan.c, end, line.exact).log_decay(end);
    return out;
}

// The oldest of the columns apart, into the sums.
void Growing::fold(Line& line) {
    const Column& oldest = line.latest.front();
    for (std::size_t m = 0; m < oldest.re.size(); ++m)
        line.ratios[m + 1].add(oldest.re[m], oldest.im[m], oldest.rule, oldest.rounding[m], oldest.count);
    add_times(line.at, oldest.at, oldest.count);
    add_times(line.left, oldest.left, oldest.count);
    add_times(line.right, oldest.right, oldest.count);
    line.decay += oldest.count * oldest.decay;
    line.latest.erase(line.latest.begin());
}

void Growing::extend(Line& line, const Sampled& part) const {
    for (Column& known : line.latest)
        if (known.sigma == part.sigma && known.q == part.q) {
            known.count += part.count;
            return;
        }
    if (line.latest.size() == kMostLatest) fold(line);
    line.latest.push_back(column(line, part));
}

std::optional<Growing::Line> Growing::line(double delta, double tolerance, bool groups) const {
    Cumulant cumulant({parts_, mu2_ + mu2_lost_, pair_}, groups);
    cumulant.restart();
    Line line;
    Plan& plan = line.plan;
    // Without a saddle point the first solution says where to invert (inversion/invert.hpp): nothing to keep.
    if (Planner<Cumulant>(cumulant, tolerance, plan).make(true, std::log(delta), 1) != Status::certified ||
        !plan.consistent)
        return {};
    plan.step *= kFinerStep;
    plan.count = static_cast<long>(std::ceil(static_cast<double>(plan.count) / kFinerStep)) + 1;
    line.log_inverse = std::log(32 * (1 + kMoreSteps * total_count_) / tolerance) + 8;
    const double each = -plan.log_decay / (1 + kMoreSteps * total_count_);
    line.exact = std::max(std::log(1e3 / each), each + 7);
    line.epsilon = plan.epsilon;
    line.steps = total_count_;
    if (cumulant.place_for(plan, line.log_inverse) != Status::certified) return {};
    line.ratios = cumulant.ratios(plan);
    for (const LogRatio& one : line.ratios)
        if (!(one.rule + one.round < HUGE_VAL)) return {};
    line.at = cumulant.sampled(plan.c);
    if (plan.left.c > 0) line.left.value = cumulant.sampled_bounded(plan.left.c);
    line.right.value = cumulant.sampled_bounded(plan.right.c);
    line.decay = cumulant.decay_from(plan, plan.step * static_cast<double>(plan.count), line.exact);
    return line;
}

bool Growing::plan(double delta, double tolerance) {
    line_.reset();
    line_ = line(delta, tolerance, true);
    if (!line_) line_ = line(delta, tolerance, false);
    return line_.has_value();
}

Result Growing::solve(double delta) {
    Line& line = *line_;
    Plan plan = line.plan;
    const long n = plan.count;
    const double mu2 = mu2_ + mu2_lost_, end = plan.step * static_cast<double>(n);
    std::vector<LogRatio> ratios = line.ratios;
    plan.k = line.at;
    CertifiedLogMgf left = line.left, right = line.right;
    double decay = line.decay;
    const auto plain = [&](CertifiedLogMgf& k, double c) {
        const double value = 0.5 * mu2 * c * (c + 1);
        add_times(k, {value, 0, 10 * kUnitRoundoff * value}, 1);
    };
    for (const Column& one : line.latest) {
        work::spend(60 * n);
        for (long m = 0; m < n; ++m) ratios[m + 1].add(one.re[m], one.im[m], one.rule, one.rounding[m], one.count);
        add_times(plan.k, one.at, one.count);
        add_times(left, one.left, one.count);
        add_times(right, one.right, one.count);
        decay += one.count * one.decay;
    }
    plain(plan.k, plan.c);
    plain(left, plan.left.c);
    plain(right, plan.right.c);
    plan.left.k = left.upper();
    plan.right.k = right.upper();
    plan.log_decay = -(decay + 0.5 * mu2 * end * end) * (1 - 1e-9);
    plan.epsilon = line.epsilon;
    memory_.resize(4 * (n + 1));
    double* at = memory_.data();
    const KeptCurve curve{{at, at + (n + 1), at + 2 * (n + 1), at + 3 * (n + 1)}};
    for (long m = 0; m <= n; ++m) curve.ordinates.set(m, ratios[m], plan.c, plan.step, mu2);
    double epsilon;
    Result r = solve_epsilon(curve, plan, delta, epsilon);
    r.abscissae = n + 1;
    if (r.status == Status::certified) line.epsilon = epsilon;
    return r;
}

Result Growing::epsilon(double delta, double tolerance) {
    Result r;
    const double more = 1 + 2 * kUnitRoundoff * static_cast<double>(additions_ + 8);
    if (distance_ * more + std::erf(0.35355339059327376220 * std::sqrt(mu2_ + mu2_lost_)) <= delta * (1 - 1e-12))
        return r;
    const work::Budget budget(kUnits);
    try {
        const auto relative = [](const Result& result) {
            return result.status == Status::certified && result.lower > 0 ? (result.upper - result.lower) / result.upper
                                                                          : HUGE_VAL;
        };
        if (line_ && total_count_ > kOutgrown * line_->steps) line_.reset();
        if (line_) r = solve(delta);
        if (!line_ || relative(r) > std::max(kKeptWidth, kWider * line_->width)) {
            if (!plan(delta, tolerance)) return {};
            r = solve(delta);
            line_->width = relative(r);
        }
        if (r.status != Status::certified) line_.reset();
    } catch (const OutOfWork&) {
        line_.reset();
        r = {};
        r.status = Status::out_of_work;
    } catch (const std::bad_alloc&) {
        line_.reset();
        return {};
    } catch (...) {
        line_.reset();
        throw;
    }
    if (pair_.kind == Pair::add && mu2_ == 0) r.upper = std::min(r.upper, most_ * more);
    return r;
}

}  // namespace tightdp::contour
