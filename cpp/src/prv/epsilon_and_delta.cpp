// The functions of prv/epsilon_and_delta.hpp. Each function merges the runs, makes a plan, composes the runs and reads
// the curve. The result is intersected with a bound by moments.
#include "epsilon_and_delta.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "composed_loss.hpp"
#include "runtime/work_budget.hpp"
#include "tightdp/accounting/interval.hpp"

namespace tightdp::prv {
namespace {

constexpr double u = kUnitRoundoff;
// An upper bound on a probability that is too small for a double, and on the rounding error 5e-324 of a subnormal
// number.
constexpr double kLeast = 1e-320;

// The runs without their failures. A failure is the event that a run reveals everything (Run). Gaussians are merged
// into one part, because their mu^2 (GaussianLaw) add up.
struct Merged {
    std::vector<Run> parts;
    Interval failure{0, 0};  // probability that some run fails
    double largest = 0;      // upper bound on the sum of the losses, or +inf if they are unbounded
};

Merged merge_prv_runs(const std::vector<Run>& runs) {
    Merged merged;
    double mu2 = 0, log_kept = 0;
    const double slack = (8 + 4 * static_cast<double>(runs.size())) * u;
    for (const Run& run : runs) {
        const double k = static_cast<double>(run.count);
        if (run.failure > 0) log_kept += k * std::log1p(-run.failure);
        if (const auto* gaussian = std::get_if<GaussianLaw>(&run.law)) {
            mu2 += k * gaussian->mu * gaussian->mu;
            continue;
        }
        double largest = HUGE_VAL;
        if (const auto* pure = std::get_if<PureLaw>(&run.law)) largest = pure->eps;
        if (const auto* laplace = std::get_if<LaplaceLaw>(&run.law)) largest = laplace->mu;
        if (largest == 0) continue;
        merged.largest += k * largest;
        merged.parts.push_back({run.law, run.count});
    }
    if (mu2 > 0) {
        merged.parts.push_back({GaussianLaw{std::sqrt(mu2), slack}, 1});
        merged.largest = HUGE_VAL;
    }
    merged.largest *= 1 + slack;
    if (log_kept < 0) merged.failure = interval_around(-std::expm1(log_kept), slack);
    merged.failure.upper = std::min(merged.failure.upper, 1.0);
    return merged;
}

MomentBounds make_moment_bounds(std::vector<Run> parts, bool reverse) {
    if (reverse)
        for (Run& part : parts) part.law = reverse_prv_single_losses(part.law);
    return MomentBounds(std::move(parts));
}

// Makes a plan and composes the parts. Returns nothing if double precision or the budget of work is not enough.
std::optional<ComposedLoss> try_prv_composition(const Composer& compose, const std::vector<Run>& parts,
                                                MomentBounds& moments, const Request& request, Bounds& answer) {
    MomentBounds reverse = make_moment_bounds(parts, true);
    const Plan found = plan_prv_circle(parts, moments, reverse, request);
    if (found.n == 0) return std::nullopt;
    std::optional<ComposedLoss> composed;
    try {
        composed.emplace(parts, found, compose);
    } catch (const OutOfWork&) {
        return std::nullopt;
    }
    answer.mesh = composed->mesh();
    answer.tails = composed->tails();
    answer.step = found.step;
    answer.points = static_cast<double>(found.n);
    // mesh() bounds the errors in epsilon. The plan's grid has room for errors of up to kMargin eps_error only.
    if (!(composed->mesh() <= Plan::kMargin * request.eps_error)) return std::nullopt;
    return composed;
}

std::string print_prv_integer(double x) {
    return std::to_string(static_cast<std::uint64_t>(std::min(x, 1e19)));
}

// Returns the delta that is left for runs without failures: (delta - f)/(1 - f), where f is the probability of a
// failure.
double remove_prv_failure(double delta, double failure) {
    return (delta - failure) / (1 - failure);
}

}  // namespace

TooLarge::TooLarge(double needed, double allowed)
    : std::runtime_error("the prv engine needs " + print_prv_integer(needed) + " bytes, max_bytes is " +
                         print_prv_integer(allowed) + "; a larger eps_error needs fewer"),
      bytes(needed) {}

Bounds epsilon(const std::vector<Run>& runs, double delta, const Request& request, const Composer& compose) {
    const Merged merged = merge_prv_runs(runs);
    Bounds answer{0, HUGE_VAL, 0, 0, 0, 0, 0};
    if (delta < merged.failure.lower) answer.lower = HUGE_VAL;
    if (delta <= merged.failure.upper) return answer;
    const double small = remove_prv_failure(delta, merged.failure.upper) * (1 - 8 * u);
    const double large = std::min(1.0, remove_prv_failure(delta, merged.failure.lower) * (1 + 8 * u));
    if (merged.parts.empty()) {
        answer.upper = 0;
        return answer;
    }
    MomentBounds moments = make_moment_bounds(merged.parts, false);
    answer.upper = std::clamp(moments.epsilon(-std::log(small) * (1 + 4 * u)), 0.0, merged.largest);
    const auto composed = try_prv_composition(compose, merged.parts, moments, request, answer);
    if (!composed) return answer;

    const double floor = -2 * composed->mesh();
    const Curve curve = composed->curve(floor);
    // The lower end is read where the curve is `large` plus the error. The error grows a little with the value of the
    // curve (prv.md, end of section 4), so it is bounded for a larger value than `large`.
    const double first = answer.tails + composed->rounding(curve, floor, large);
    answer.rounding = composed->rounding(curve, floor, 1.1 * (large + first));
    const double error = (answer.tails + answer.rounding) * (1 + 4 * u);
    // An eps that is read off the curve is a grid point plus a logarithm. reading() bounds the rounding errors of both.
    const auto reading = [&](double eps) { return 16 * u * (std::fabs(eps) + 1); };
    if (small > error) {
        const double eps = curve.epsilon(small - error);
        answer.upper = std::min(answer.upper, std::max(0.0, eps + composed->mesh() + reading(eps)));
    }
    if (large + error < 1) {
        const double eps = curve.epsilon(large + error);
        answer.lower = std::min(answer.upper, std::max(0.0, eps - composed->mesh() - reading(eps)));
    }
    return answer;
}

Bounds delta(const std::vector<Run>& runs, double eps, const Request& request, const Composer& compose) {
    const Merged merged = merge_prv_runs(runs);
    // No privacy profile is below 1 - e^eps.
    const double least = eps < 0 ? -std::expm1(eps) : 0.0;
    Bounds answer{least * (1 - 4 * u), 1, 0, 0, 0, 0, 0};
    if (merged.parts.empty()) {
        answer.upper = std::min(1.0, least * (1 + 4 * u));
    } else {
        MomentBounds moments = make_moment_bounds(merged.parts, false);
        const double bound = std::exp(moments.log_delta(eps)) * (1 + 4 * u) + kLeast;
        answer.upper = eps >= merged.largest ? 0 : std::min(1.0, bound);
        if (const auto composed = try_prv_composition(compose, merged.parts, moments, request, answer)) {
            const double mesh = composed->mesh() + 16 * u * (std::fabs(eps) + 1);
            const Curve curve = composed->curve(eps - mesh);
            const double high = curve.delta(eps - mesh), low = curve.delta(eps + mesh);
            answer.rounding = composed->rounding(curve, eps - mesh, std::fabs(high));
            const double error = (answer.tails + answer.rounding) * (1 + 4 * u);
            answer.upper = std::min(answer.upper, std::max(0.0, high + error));
            answer.lower = std::min(std::max(answer.lower, low - error), answer.upper);
        }
    }
    // The output reveals everything with the probability f of a failure.
    const Interval f = merged.failure;
    answer.lower = std::max(0.0, (f.lower + (1 - f.lower) * answer.lower) * (1 - 8 * u));
    answer.upper = std::min(1.0, (f.upper + (1 - f.upper) * answer.upper) * (1 + 8 * u));
    return answer;
}

}  // namespace tightdp::prv
