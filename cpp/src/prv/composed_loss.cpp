// The algorithms DiscretizePRV and ComposePRV of Gopi, Lee and Wutschitz (docs/theory/prv.md, sections 3 and 4).
#include "composed_loss.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "fft/real_fft.hpp"
#include "runtime/compensated_sum.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::prv {
namespace {

constexpr double u = kUnitRoundoff;

// Number of terms in each partial sum. A compensated sum of the partial sums has an error of at most (kChunk + 2) u
// times the sum of magnitudes, and kSumError is a little larger.
constexpr std::int64_t kChunk = 32;
constexpr double kSumError = (kChunk + 4) * u;

// Bound on the relative error of the mass at each point of the discretised distribution. The error consists of the
// error of the cells (4 u) and of the errors of the sum and the division that normalise the cells.
constexpr double kMassError = 8 * u + kSumError;

// Checks that the cells miss no more probability than the tail of the support (prv.md, section 4.2). kRounding exceeds
// all rounding errors of the masses.
void require_all_mass(const Support& support, const CellSums& sums) {
    constexpr double kRounding = 1e-12;
    if (!(sums.total >= 1 - support.tail - kRounding && sums.total <= 1 + kRounding))
        throw std::logic_error("the cells of a privacy loss have the mass " + std::to_string(sums.total));
}

// Computes the masses of a distribution's cells and returns their sums. The masses are divided by their sum and added
// to the points of the circle.
CellSums discretise_on_prv_circle(const Law& law, const Circle& circle, const Circle::Span& span, double* out) {
    const auto [first, count] = span;
    std::vector<double> mass(static_cast<std::size_t>(count));
    prv_cells(law, circle.h, first, count, mass.data());

    CompensatedSum total, moment, magnitude;
    for (std::int64_t from = 0; from < count; from += kChunk) {
        double t = 0, m = 0, a = 0;
        for (std::int64_t i = from; i < std::min(count, from + kChunk); ++i) {
            const double index = static_cast<double>(first + i);
            t += mass[static_cast<std::size_t>(i)];
            m += mass[static_cast<std::size_t>(i)] * index;
            a += mass[static_cast<std::size_t>(i)] * std::fabs(index);
        }
        total += t;
        moment += m;
        magnitude += a;
    }
    const double inverse = 1 / total;
    std::fill_n(out, circle.n, 0.0);
    for (std::int64_t i = 0; i < count; ++i)
        // NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): out has circle.n elements
        out[static_cast<std::size_t>(first + i) & (circle.n - 1)] += mass[static_cast<std::size_t>(i)] * inverse;
    return {total, moment, magnitude};
}

}  // namespace

Composite compose_on_cpu(const std::vector<Run>& runs, const Circle& circle) {
    const auto units = 5 * static_cast<std::int64_t>(circle.n);  // units of work (runtime/work_budget.hpp)
    work::spend(units);
    const auto fft = RealFft::plan(circle.n);
    Composite made{AlignedArray(circle.n), {}, fft->rounding_bound(), kMassError};
    AlignedArray scratch(runs.size() > 1 ? circle.n : 0);
    double* const values = made.values.data();
    for (std::size_t j = 0; j < runs.size(); ++j) {
        double* spectrum = j == 0 ? values : scratch.data();
        made.sums.push_back(discretise_on_prv_circle(runs[j].law, circle, circle.spans[j], spectrum));
        work::spend(units);
        fft->forward(spectrum, spectrum);
        work::spend(2 * units);
        if (runs[j].count > 1) fft->power(spectrum, runs[j].count, spectrum);
        if (j > 0) fft->multiply(values, spectrum, values);
    }
    work::spend(units);
    fft->inverse(values, values);
    return made;
}

ComposedLoss::ComposedLoss(const std::vector<Run>& parts, const Plan& plan, const Composer& compose) : plan_(plan) {
    Circle circle{plan.step, plan.n, {}};
    for (std::size_t j = 0; j < parts.size(); ++j) {
        const long long first = std::llround(plan.supports[j].low / plan.step),
                        last = std::llround(plan.supports[j].high / plan.step);
        circle.spans.push_back({first, static_cast<std::int64_t>(last - first + 1)});
    }
    made_ = compose(parts, circle);
    for (std::size_t j = 0; j < parts.size(); ++j) {
        require_all_mass(plan.supports[j], made_.sums[j]);
        correct_mean(parts[j], plan.supports[j], made_.sums[j]);
        count_ += static_cast<double>(parts[j].count);
    }
    // The circle is cut open below all values that the sum can take, at a multiple of the block length of the curve.
    first_ = static_cast<long long>(std::floor((plan.start - offset_) / plan.step));
    first_ -= (first_ % Curve::kBlock + Curve::kBlock) % Curve::kBlock;
    bound_rounding(parts);
}

void ComposedLoss::correct_mean(const Run& part, const Support& support, const CellSums& sums) {
    const double h = plan_.step, k = static_cast<double>(part.count), inverse = 1 / sums.total;
    const Mean exact = prv_mean(part.law);
    const double truncation = prv_mean_truncation(exact, support);
    const double summation = 3 * made_.mass_error * h * sums.magnitude * inverse;
    offset_ += k * (exact.value - h * sums.moment * inverse);
    mean_error_ +=
        k * (exact.error + truncation + summation + 8 * u * std::fabs(exact.value)) + 4 * u * std::fabs(offset_);
}

// Bounds the rounding errors as in prv.md, section 4.3. Magnitudes of transforms below kTau count as kTau. The bound
// holds for any kTau. The last condition of this function fails if there are too many steps. With the kTau chosen here
// the condition holds for up to about 1e9 steps. With a smaller kTau the condition holds for fewer steps. A larger kTau
// would add more than 4e-6 to the square of the norm of a single step.
void ComposedLoss::bound_rounding(const std::vector<Run>& parts) {
    constexpr double kTau = 1e-3;
    const double kappa = made_.kappa * (1 + 1e-6);
    const double squares =
        TIGHTDP_SELECT_SIMD(sum_curve_squares)(made_.values.data(), static_cast<std::int64_t>(plan_.n));
    double least_count = HUGE_VAL;
    for (const Run& part : parts) least_count = std::min(least_count, static_cast<double>(part.count));
    const double norm = std::sqrt(1.1 * squares + std::pow(2 * kTau, 2 * least_count));
    vector_error_ = (kappa + 4 * u * count_) * norm;  // errors of the inverse transform, and of powers and products
    for (const Run& part : parts) {
        const double k = static_cast<double>(part.count);
        vector_error_ += 1.1 * kappa * k * std::pow(std::min(norm, 1.0), (k - 1) / k);
    }
    // If the condition in brackets holds, the factors 1.1 cover the terms of second order in the errors.
    if (!(count_ * (kappa + made_.mass_error) < 1e-2 * kTau)) vector_error_ = HUGE_VAL;
}

double ComposedLoss::rounding(const Curve& curve, double eps, double value) const {
    const double magnitudes = 1.01 + std::sqrt(static_cast<double>(plan_.n)) * vector_error_;
    return std::sqrt(curve.points_above(eps)) * vector_error_ + curve.rounding_bound() * magnitudes +
           count_ * (8 * u + 1.1 * made_.mass_error * value);
}

}  // namespace tightdp::prv
