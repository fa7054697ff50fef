// Computes spectra of weights, products of spectra, and bounds on the errors of both (docs/theory/grid.md, section
// 5.1). Weights are wound round a circle of n points: the weight with the index i is added to the point i mod n.
#include "grid_spectra.hpp"

#include <algorithm>
#include <cmath>

#include "fft/real_fft.hpp"
#include "grid_loops.simd.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

// Bound on the weight that may be missing at each point, because tilt_grid_cells() uses zero instead of exponentials
// below e^-708.
constexpr double kUnseen = 1e-300;
// Units of work (runtime/work_budget.hpp). kTransformUnits, kProductUnits and kPowerUnits are the work for each point
// of the circle. kMomentUnits is the work for each weight.
constexpr std::int64_t kTransformUnits = 5, kProductUnits = 2, kPowerUnits = 10, kMomentUnits = 5;

std::int64_t count_grid_spectrum_work(std::int64_t units, std::size_t points) {
    return units * static_cast<std::int64_t>(points);
}

// Weights on a circle, and upper bounds on their norms.
struct Circle {
    AlignedArray x;
    double norm1 = 0, norm2 = 0;
};

// Multiplies weights by `scale` and winds them round a circle of n points.
Circle wind_grid_weights(const Weights& weights, double scale, std::size_t n) {
    Circle c{AlignedArray::make_aligned_zeros(n)};
    const std::size_t mask = n - 1;
    auto at = static_cast<std::size_t>(weights.first) & mask;
    for (std::size_t i = 0; i < weights.values.size();) {
        const std::size_t run = std::min(n - at, weights.values.size() - i);
        for (std::size_t k = 0; k < run; ++k) c.x[at + k] += weights.values[i + k] * scale;
        i += run;
        at = 0;
    }
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
        sum += c.x[i];
        squares += c.x[i] * c.x[i];
    }
    const double more = 1 + 2 * u * static_cast<double>(n);
    c.norm1 = sum * more;
    c.norm2 = std::sqrt(squares) * more;
    return c;
}

// Returns an upper bound on |z^{k-1}|_2 / sqrt n over all n frequencies, where k is `power`. At each frequency, z is
// the larger in magnitude of the true and of the computed spectrum.
double bound_grid_spectrum_power(const RealFft& plan, const double* spectrum, double power) {
    // (|z| + kappa)^2 <= (1 + t) |z|^2 + (1 + 1/t) kappa^2 for every t > 0. Here t is so small that (1 + t)^{k-1} is
    // within two percent of 1. kappa bounds the rounding error of the transform at each frequency.
    const double kappa = plan.rounding_bound(), t = 1 / (64 * (power - 1));
    const double more = (1 + 1 / t) * kappa * kappa;
    const auto alone = [&](double x) { return std::pow((1 + t) * x * x + more, power - 1); };
    double total = alone(spectrum[0]) + alone(spectrum[1]);
    for (std::size_t m = plan.size(); m >= 4; m /= 2)  // of two conjugate frequencies only one is stored
        total += 2 * TIGHTDP_SELECT_SIMD(sum_grid_powers)(spectrum + m / 2, spectrum + 3 * m / 4, m / 4, 1 + t, more,
                                                          power - 1);
    const auto n = static_cast<double>(plan.size());
    return std::sqrt(total / n) * (1 + u * n + 8 * u * power + 4096 * u);
}

double sum_grid_weights(const std::vector<double>& w) {
    double blocks = 0;
    for (std::size_t from = 0; from < w.size(); from += 256) {
        double sum = 0;
        for (std::size_t i = from; i < std::min(from + 256, w.size()); ++i) sum += w[i];
        blocks += sum;
    }
    return blocks;
}

}  // namespace

Spectrum transform_grid_weights(const InexactWeights& inexact, const TailExponents& exponents, double h,
                                std::size_t n) {
    work::spend(count_grid_spectrum_work(kTransformUnits, n) +
                count_grid_spectrum_work(kMomentUnits, inexact.weights.values.size()));
    const auto plan = RealFft::plan(n);
    const Weights& w = inexact.weights;
    Spectrum out;
    out.least = static_cast<double>(w.first);
    out.most = out.least + static_cast<double>(w.values.size()) - 1;
    out.last = inexact.last;
    out.reach = std::abs(inexact.last);
    const double sum = sum_grid_weights(w.values);
    // A sum of 0 means that all weights are 0, as they are if the lower distribution is empty. If the sum is infinite
    // or NaN, the weights exceed the range of doubles.
    if (!(sum > 0 && sum < HUGE_VAL)) {
        out.nothing = true;
        return out;
    }
    // The weights are scaled so that their sum is below 1 even with the errors of the transform and of `sum`.
    const double kappa = plan->rounding_bound();
    const double scale = (1 - 4 * kappa - (2048 + static_cast<double>(w.values.size()) / 64) * u) / sum;
    Circle circle = wind_grid_weights(w, scale, n);
    out.log_scale = w.log_scale - std::log(scale);
    out.log_error = inexact.log_error + 4 * u * (std::abs(w.log_scale) + std::abs(std::log(scale)));
    // Scaling and winding add a rounding error at each point. The last term of `error1` is for missing weights
    // (kUnseen).
    const double span = std::max(inexact.span, static_cast<double>(w.values.size()));
    const double folds = std::ceil(span / static_cast<double>(n));
    out.error1 = inexact.error1 * scale * (1 + 8 * u) + (2 + folds) * u * circle.norm1 +
                 kUnseen * scale * static_cast<double>(w.values.size());
    out.error2 = inexact.error2 * scale * (1 + 8 * u) * std::sqrt(folds);
    out.norm2 = circle.norm2;
    out.z = std::move(circle.x);
    plan->forward(out.z.data(), out.z.data());

    const auto moments = [&](const TailExponents::Each& exponents, TailExponents::Each& moments) {
        log_grid_moments(w, exponents.data(), h, moments.data());
        for (std::size_t i = 0; i < moments.size(); ++i) {
            const double shift = exponents[i] * h * out.least, size = std::abs(moments[i]) + std::abs(shift);
            out.moments_size = std::max(out.moments_size, size + std::abs(w.log_scale));
            moments[i] += shift + w.log_scale + inexact.log_error;
        }
    };
    moments(exponents.list_right_exponents(), out.right);
    moments(exponents.list_left_exponents(), out.left);
    return out;
}

void multiply_grid_spectra(const Product& before, const Spectrum& factor, double power, Product& after) {
    after.least = before.least + power * factor.least;
    after.most = before.most + power * factor.most;
    after.last = before.last + power * factor.last;
    after.reach = before.reach + power * factor.reach;
    after.nothing = before.nothing || factor.nothing;
    if (after.nothing) {
        after.empty = false;
        return;
    }
    const std::size_t n = factor.z.size();
    work::spend(count_grid_spectrum_work(power > 1 ? kPowerUnits : kProductUnits, n));
    const auto plan = RealFft::plan(n);
    const double kappa = plan->rounding_bound(), root_n = std::sqrt(static_cast<double>(n));
    after.log_scale = before.log_scale + power * factor.log_scale;
    after.log_error = before.log_error + power * factor.log_error +
                      2 * u * (power * std::abs(factor.log_scale) + std::abs(after.log_scale));
    after.growth = before.growth + power * (factor.error1 + root_n * factor.error2);
    after.error1 = before.error1 + power * factor.error1;
    after.relative = before.relative + RealFft::power_bound(static_cast<std::uint64_t>(power)) + 4 * u;
    // A power z^k multiplies the transform's error in one factor by the k - 1 other factors (docs/theory/fft.md,
    // Corollary).
    double passed = factor.norm2;
    if (power > 1) passed = std::min(passed, bound_grid_spectrum_power(*plan, factor.z.data(), power));
    after.error2 = before.error2 + power * (factor.error2 + kappa * passed);
    for (std::size_t i = 0; i < TailExponents::kCount; ++i) {
        after.right[i] = before.right[i] + power * factor.right[i];
        after.left[i] = before.left[i] + power * factor.left[i];
    }
    after.moments_size = before.moments_size + power * factor.moments_size;
    after.terms = before.terms + 1;

    AlignedArray powered;
    const double* z = factor.z.data();
    if (power > 1) {
        powered = AlignedArray(n);
        plan->power(z, static_cast<std::uint64_t>(power), powered.data());
        z = powered.data();
    }
    if (!before.empty) {
        if (&before != &after) after.z = AlignedArray(n);
        plan->multiply(before.z.data(), z, after.z.data());
    } else if (power > 1) {
        after.z = std::move(powered);
    } else {
        after.z = AlignedArray(n);
        std::copy_n(z, n, after.z.data());
    }
    after.empty = false;
}

InexactWeights restore_grid_weights(const Product& product, std::int64_t first) {
    InexactWeights out;
    const std::size_t n = product.z.size();
    work::spend(count_grid_spectrum_work(kTransformUnits, n));
    const auto plan = RealFft::plan(n);
    const double kappa = plan->rounding_bound(), root_n = std::sqrt(static_cast<double>(n));
    AlignedArray wound(n);
    plan->inverse(product.z.data(), wound.data());
    double squares = 0;
    const auto start = static_cast<std::size_t>(first) & (n - 1);
    out.weights = {first, std::vector<double>(n), product.log_scale};
    for (std::size_t i = 0; i < n; ++i) {
        const double y = wound[(start + i) & (n - 1)];
        squares += y * y;
        out.weights.values[i] = std::max(0.0, y);
    }
    const double norm2 = std::sqrt(squares) * (1 + u * static_cast<double>(n));
    const bool small = product.growth < 2 && product.relative < 0.005;
    const double more = small ? std::exp(product.growth) * (1 + 1e-9) : HUGE_VAL;
    out.error2 = more * product.error2 * (1 + 1e-9) + (product.relative + kappa) * 1.01 * norm2 +
                 product.terms * root_n * 0x1p-449;
    out.error1 = more * product.error1 * (1 + 1e-9);
    out.log_error = product.log_error;
    out.span = static_cast<double>(n);
    return out;
}

void trim_grid_weights(InexactWeights& inexact) {
    std::vector<double>& w = inexact.weights.values;
    const double noise = 4 * inexact.error2 / std::sqrt(static_cast<double>(w.size()));
    std::size_t from = 0, to = w.size();
    double lost = 0;
    while (from + 1 < to && w[from] < noise) lost += w[from] * w[from], ++from;
    while (to > from + 1 && w[to - 1] < noise) --to, lost += w[to] * w[to];
    inexact.error2 += std::sqrt(lost) * (1 + u * static_cast<double>(w.size()));
    w.erase(w.begin() + static_cast<std::ptrdiff_t>(to), w.end());
    w.erase(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(from));
    inexact.weights.first += static_cast<std::int64_t>(from);
}

}  // namespace tightdp::grid
