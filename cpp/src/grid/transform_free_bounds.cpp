// Bounds that need no Fourier transform (docs/theory/grid.md, section 5.5). The tilt t multiplies masses at losses y by
// e^{ty}, and a sketch is a list of lumps of mass that stands for a distribution
// (loss_distributions/loss_distribution.hpp).
#include "transform_free_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "level_composition.hpp"

namespace tightdp::grid {
namespace {

// Numbers of cells of coarse lattices. The bounds hold for any numbers. The sketch of a Gaussian covers 78 standard
// deviations (loss_distributions/gaussian_cells.cpp), so that one of kCells cells is 0.15 deviations wide. The relative
// error of a step's variance is then less than 0.15^2 / 8, a third of a percent. A large tilt, which belongs to a small
// delta, multiplies this error, so bound_delta_by_grid_moment uses kFineCells cells of 0.02 deviations.
constexpr double kCells = 512, kFineCells = 4096;

// A distribution on a lattice that has a given number of cells over the range of the distribution's sketch.
struct Coarse {
    Lattice lattice;
    Discretised weights;
};

// Puts a distribution on a lattice with `cells` cells over the range of its sketch. `tilt` and `log_scale` have the
// same meaning as for discretise_on_grid(). Returns nothing if the indices of the lattice points are too large. The
// mass of losses above `right` is split between the last point and infinity.
std::optional<Coarse> put_losses_on_coarse_grid(const LossDistribution& losses, double tilt, double log_scale,
                                                double cells, double right = HUGE_VAL) {
    const Sketch& sketch = losses.get_loss_sketch();
    const double left = sketch.loss.front();
    const Range range{left, std::max(left, std::min(right, sketch.loss[sketch.size - 1]))};
    const double spread = std::max({range.right - range.left, 1e-9 * std::abs(range.left), 1e-300});
    Coarse coarse{{losses.anchor, spread / cells, tilt}, {}};
    std::int64_t first;
    std::size_t count;
    if (!place_on_grid(range, coarse.lattice, 2 * static_cast<std::size_t>(cells), first, count)) return std::nullopt;
    discretise_on_grid(losses, coarse.lattice, log_scale, first, count, coarse.weights);
    return coarse;
}

// Returns the sum of w_i e^{-power h i} over all points i. There are at most about a thousand points. The terms that
// underflow have a sum of less than 1e-290. Apart from these terms, the relative error is at most 2^-41.
double sum_decayed_grid_weights(const Weights& weights, double power, double h) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.values.size(); ++i)
        sum += weights.values[i] * std::exp(-power * h * static_cast<double>(i));
    return sum;
}

}  // namespace

double bound_largest_grid_sum(const std::vector<Part>& parts) {
    double top = 0, size = 0;
    for (const Part& part : parts) {
        const double one = part.count * part.losses->largest_finite_loss();
        top += one;
        size += std::abs(one);
    }
    return top + 8 * u * static_cast<double>(parts.size()) * size;
}

Infinity bound_grid_mass_at_infinity(const std::vector<Part>& parts) {
    double least = 0, most = 0;  // bounds on -ln of the finite mass
    for (const Part& part : parts) {
        const double mass = part.losses->infinity, rel = part.losses->mass_rel + 8 * u;
        least -= part.count * log_grid_finite_mass(mass * std::max(0.0, 1 - rel));
        most -= part.count * log_grid_finite_mass(std::min(1.0, mass * (1 + rel)));
    }
    const double more = 8 * u * static_cast<double>(parts.size() + 1);
    return {-std::expm1(-least) * (1 - more), std::min(1.0, -std::expm1(-most) * (1 + more))};
}

double bound_delta_below_grid_top(const std::vector<Part>& parts, double epsilon) {
    constexpr double kMore = 0x1p-29;  // largest sum of a user's probabilities, minus 1
    double steps = 0;
    for (const Part& part : parts) steps += part.count;
    const double finite = -std::expm1(epsilon - bound_largest_grid_sum(parts)) * std::exp(kMore * steps);
    const double bound = (bound_grid_mass_at_infinity(parts).upper + finite + kLeast) * (1 + 16 * u);
    return bound >= 0 && bound <= 1 ? bound : 1;  // 1 also if `bound` is NaN
}

double bound_delta_near_one_on_grid(const std::vector<Part>& parts, double epsilon) {
    constexpr double kPowers[] = {0.5, 1};
    constexpr double kEnough = 40;  // ln of a ratio that is negligible: e^-40 = 4e-18
    // Logarithms of the mass of one step, and of E[e^{-power Y}; Y finite] for each of the two powers. Y is the loss of
    // this step. `size` bounds the sum of the magnitudes of the terms from which these logarithms were computed.
    struct Rates {
        double log_mass, log_rest[2], size;
    };
    std::vector<Rates> rates;
    double fall = 0;
    for (const Part& part : parts) {
        const auto coarse = put_losses_on_coarse_grid(*part.losses, 0, 0, kCells);
        if (!coarse) return 0;
        const auto& [lattice, d] = *coarse;
        // sum_decayed_grid_weights() returns moments of the losses minus the first lattice point. `from` is this point,
        // minus the slack.
        const double first = lattice.grid_point(d.lower.first), from = first - d.slack - 4 * u * std::abs(first);
        const double mass = (d.infinity_lower + sum_decayed_grid_weights(d.lower, 0, lattice.h)) * (1 - 4096 * u);
        if (!(mass > 0)) return 0;
        Rates one{std::log(mass), {}, std::abs(std::log(mass)) + std::abs(from)};
        for (int power = 0; power < 2; ++power) {
            const double log =
                std::log(sum_decayed_grid_weights(d.lower, kPowers[power], lattice.h) * (1 + 4096 * u) + 1e-290);
            one.log_rest[power] = log - kPowers[power] * from;
            one.size += std::abs(log);
        }
        rates.push_back(one);
        fall -= part.count * one.log_rest[0];
    }
    // The bound is the mass minus the smaller of two terms, one for each power. Some of the steps reveal no more than
    // all steps, so any number of steps gives a lower bound. The code takes as many steps as are needed to bring the
    // term for the power 1/2 under e^-40. With more steps only the rounding errors would grow.
    const double share = std::min(1.0, (kEnough + 0.5 * std::max(epsilon, 0.0)) / fall);
    double log_mass = 0, log_rest[] = {0.5 * epsilon, epsilon}, size = std::abs(epsilon);
    for (std::size_t j = 0; j < parts.size(); ++j) {
        const double count = share > 0 && share < 1 ? std::ceil(share * parts[j].count) : parts[j].count;
        log_mass += count * rates[j].log_mass;
        for (int power = 0; power < 2; ++power) log_rest[power] += count * rates[j].log_rest[power];
        size += count * rates[j].size;
    }
    const double more = 16 * u * (size + 1) * static_cast<double>(parts.size() + 1);
    return std::exp(log_mass - more) - std::exp(std::min(log_rest[0], log_rest[1]) + more);
}

double bound_delta_left_of_grid(const std::vector<Part>& parts, double epsilon) {
    double log_mass = 0, log_rest = epsilon, bottom = 0, size = std::abs(epsilon);
    for (const Part& part : parts) {
        const auto coarse = put_losses_on_coarse_grid(*part.losses, 0, 0, kCells);
        if (!coarse) return 1;
        const auto& [lattice, d] = *coarse;
        const double first = lattice.grid_point(d.upper.first), slack = d.slack + 4 * u * std::abs(first);
        const double mass = d.infinity_upper + sum_decayed_grid_weights(d.upper, 0, lattice.h),
                     rest = sum_decayed_grid_weights(d.upper, 1, lattice.h);
        log_mass += part.count * std::log(mass * (1 + 4096 * u));
        log_rest += part.count * (std::log(rest * (1 - 4096 * u)) - first - slack);
        bottom += part.count * (first - slack);
        size += part.count * (std::abs(std::log(mass)) + std::abs(std::log(rest)) + std::abs(first) + slack);
    }
    const double more = 16 * u * (size + 1) * static_cast<double>(parts.size() + 1);
    if (!(epsilon <= bottom - more)) return 1;
    const double bound = std::exp(std::max(0.0, log_mass) + more) - std::exp(log_rest - more);
    return bound >= 0 && bound <= 1 ? bound : 1;  // 1 also if `bound` is NaN
}

double bound_delta_by_grid_moment(const std::vector<Part>& parts, const Sketches& sketches, double tilt,
                                  double epsilon) {
    double log = log_grid_tilt_factor(tilt) - tilt * epsilon, size = std::abs(tilt * epsilon) + 1;
    double log_finite = 0;
    for (std::size_t j = 0; j < parts.size(); ++j) {
        const Part& part = parts[j];
        const double shift = tilt * part.losses->anchor, scale = sketches.estimate_grid_cumulant(j, tilt).value - shift;
        // The sketch is cut off on the right (Sketches). The lattice ends there too, because the tilt would multiply
        // the masses further right most.
        const auto coarse = put_losses_on_coarse_grid(*part.losses, tilt, scale, kFineCells,
                                                      sketches.estimate_grid_range(j, tilt, 0).right);
        if (!coarse) return 1;
        const Discretised& d = coarse->weights;
        double sum = 0;
        for (const double w : d.upper.values) sum += w;
        log += part.count * (std::log(sum * (1 + 0x1p-38) + 0x1p-960) + scale + shift + tilt * d.slack);
        log_finite += part.count * log_grid_finite_mass(d.infinity_upper);
        size += part.count * (std::abs(std::log(sum)) + std::abs(scale) + std::abs(shift));
    }
    const double more = 16 * u * static_cast<double>(parts.size() + 1);
    const double bound = std::exp(log + more * size) - std::expm1(log_finite * (1 + more)) * (1 + more) + kLeast;
    return bound <= 1 ? bound : 1;  // 1 also if `bound` is NaN
}

}  // namespace tightdp::grid
