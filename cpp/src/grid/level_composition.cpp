// Composes privacy loss distributions level by level, as a plan describes (grid_plan.hpp; docs/theory/grid.md, sections
// 5.1 to 5.3). In this file, a product is a product of spectra, the Fourier transforms of weights (grid_spectra.hpp).
#include "level_composition.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "level_products.hpp"
#include "result_store.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

// Bound on the indices of lattice points, so that doubles represent these indices and their sums exactly.
constexpr double kMostIndex = 0x1p50;

// The composition of all steps up to a given level, as one spectrum for each side on the lattice of the next level. A
// level is one lattice of the plan, with twice the spacing of the level before (grid.md, section 5.2).
struct Coarse : Kept<Spectrum> {
    StepSums sums;
};

// Describes the mass of a product that lies outside of the level's window, which is the range of lattice points that
// the level stores.
Outside describe_mass_outside_grid(const Product& product, const Level& level) {
    const TailExponents& exponents = level.window.exponents;
    const auto first = static_cast<double>(level.first), n = static_cast<double>(level.n);
    Outside out{{exponents.list_right_exponents(), product.right, product.most >= first + n},
                {exponents.list_left_exponents(), product.left, product.least < first}};
    const double rounding = (8 + 2 * product.terms) * u * product.moments_size;
    for (Tail* tail : {&out.right, &out.left})
        for (double& moment : tail->moments) moment += rounding;
    if (product.reach < kMostIndex && !product.nothing) out.last = product.last;
    return out;
}

// Returns a bound on the tilted mass (grid_weights.hpp) outside of the window, in units of the side's weights. The
// weights are wound round a circle as long as the window. So mass that belongs outside of the window is missing there,
// and appears at points inside. The bound holds for the missing mass and for the mass that appears at wrong points.
double bound_mass_outside_grid_level(const Side& side, const Level& level) {
    const InexactWeights& inexact = side.inexact;
    const double from = static_cast<double>(level.first) * level.h, to = from + static_cast<double>(level.n) * level.h;
    const double error = inexact.log_error + 4 * u * std::abs(inexact.weights.log_scale);
    const auto mass = [&](double log) { return std::exp(log - inexact.weights.log_scale + error); };
    return mass(side.beyond.right.bound_grid_tail(0, to)) + mass(side.beyond.left.bound_grid_tail(0, from));
}

// Returns a result for a plan that cannot be carried out. Its errors are infinite, so that it bounds nothing.
Composed make_failed_grid_sides(const Level& level) {
    Side nothing;
    nothing.inexact.weights.values = std::vector<double>(4);
    nothing.inexact.error1 = nothing.inexact.last = HUGE_VAL;
    return {nothing, nothing, {}, level.h};
}

// Returns the upper or the lower side of a level from the product of its spectra. If there is no product, the side's
// weights are zero and its error is infinite.
Side finish_grid_side(const Product& product, const Level& level) {
    Side out{{}, describe_mass_outside_grid(product, level)};
    if (product.nothing || product.empty) {
        out.inexact.weights = {level.first, std::vector<double>(level.n), 0};
        out.inexact.error1 = HUGE_VAL;
    } else {
        out.inexact = restore_grid_weights(product, level.first);
    }
    out.inexact.last = out.beyond.last;
    return out;
}

// Returns the ratio of the 1-norm (the sum) of `w` to that of `below`, rounded up and at least 1. `below` has the
// weights of the lower side on the coarser lattice, which were computed from the weights `w` on the finer lattice.
double bound_lowered_grid_norm(const Weights& w, const Weights& below) {
    const double have = std::accumulate(w.values.begin(), w.values.end(), 0.0);
    const double left = std::accumulate(below.values.begin(), below.values.end(), 0.0);
    const double points = static_cast<double>(w.values.size() + below.values.size());
    return std::max(1.0, have / left * std::exp(w.log_scale - below.log_scale)) * (1 + 2 * u * points + 0x1p-40);
}

}  // namespace

InexactWeights coarsen_grid_weights(const InexactWeights& fine, const Lattice& lattice, bool upper) {
    Weights coarse = coarsen_grid_weights(fine.weights, lattice, upper);
    // The errors of the weights move to the coarser lattice as the weights do. Splitting an error among neighbouring
    // points multiplies its 1-norm by at most e^{tilt h}, and its 2-norm by at most sqrt(2) e^{tilt h}.
    //
    // The next level takes the fourth power of the coarse weights. In the fourth power, an error is multiplied by three
    // factors of weights. A valid bound uses the 1-norm of the fine weights for each factor, but
    // multiply_grid_spectra() uses the 1-norm of the coarse weights. On the lower side, the norm of the coarse weights
    // may be smaller. Therefore the error is multiplied here by the cube of the ratio of these norms (grid.md, section
    // 5.2).
    const double lean = std::exp(lattice.tilt * lattice.h);
    const double more = upper ? lean : lean * std::pow(bound_lowered_grid_norm(fine.weights, coarse), 3);
    return {std::move(coarse), fine.error1 * more,         fine.error2 * more * std::sqrt(2.0),
            fine.log_error,    std::ceil(0.5 * fine.last), 0.5 * fine.span + 2};
}

double StepSums::bound_infinite_mass(bool high) const {
    const double rel = (16 + 4 * terms) * u;
    const double log = high ? log_finite_upper : log_finite_lower;
    const double mass = -std::expm1(log);
    return high ? std::min(1.0, mass * (1 + rel)) : mass * (1 - rel);
}

double log_grid_finite_mass(double infinity) {
    return infinity < 1 ? std::log1p(-infinity) : -HUGE_VAL;
}

bool place_on_grid(const Range& range, const Lattice& lattice, std::size_t most, std::int64_t& first,
                   std::size_t& cells) {
    const double from = std::floor((range.left - lattice.anchor) / lattice.h - 1e-6);
    const double to = std::ceil((range.right - lattice.anchor) / lattice.h + 1e-6);
    if (!(std::abs(from) < kMostIndex && std::abs(to) < kMostIndex)) return false;
    first = static_cast<std::int64_t>(from);
    cells = static_cast<std::size_t>(std::clamp(to - from, 1.0, static_cast<double>(most)));
    return true;
}

Composed compose_on_grid(const std::vector<Part>& parts, const Plan& plan) {
    const std::size_t last = plan.levels.size() - 1;
    const double last_norm =
        bound_grid_kernel_norm(plan.tilt, plan.levels[last].h, static_cast<double>(plan.levels[last].n));
    std::vector<LevelSteps> levels;
    for (std::size_t l = 0; l <= last; ++l) {
        levels.emplace_back(parts, plan, l);
        if (!levels.back().is_grid_level_possible()) return make_failed_grid_sides(plan.levels[l]);
    }
    // The store keeps the Coarse of each level l under a key, which is the beginning of `key` up to ends[l]. This part
    // has everything from which the levels 0 to l are computed, and the lattice of level l + 1.
    Key key{kLevel, result_store_word(last_norm)};
    std::vector<std::size_t> ends;
    for (std::size_t l = 0; l < last; ++l) {
        const Key next = levels[l + 1].list_level_grid_words();
        key.push_back(levels[l].grid_level_key_words().size());
        key.insert(key.end(), levels[l].grid_level_key_words().begin(), levels[l].grid_level_key_words().end());
        key.push_back(static_cast<std::uint64_t>(plan.levels[l].first));
        key.insert(key.end(), next.begin(), next.end());
        ends.push_back(key.size());
    }
    std::size_t l = 0;
    const std::int64_t start = work::spent();
    std::shared_ptr<const Coarse> before = Store::get_shared_store().find_longest_stored_result<Coarse>(key, ends, l);
    if (before) work::spend(before->units);
    for (;; ++l) {
        const Level& level = plan.levels[l];
        const auto fold = levels[l].multiply_grid_level_spectra();
        Product upper, lower;
        const Product *above = &fold->upper, *below = &fold->lower;
        StepSums sums = fold->sums;
        if (before) {
            multiply_grid_spectra(*above, before->upper, 4, upper);
            multiply_grid_spectra(*below, before->lower, 4, lower);
            above = &upper, below = &lower;
            const StepSums& t = before->sums;
            sums.anchor += 4 * t.anchor;
            sums.slack += t.slack + 2 * u * count_grid_steps_per_level_step(plan, l) * std::abs(sums.anchor);
            sums.terms += t.terms + 1;
            sums.log_finite_upper += t.log_finite_upper;
            sums.log_finite_lower += t.log_finite_lower;
            sums.work += t.work;
        }
        sums.work += static_cast<double>(level.n);
        Side high = finish_grid_side(*above, level), low = finish_grid_side(*below, level);
        if (l == last) return {std::move(high), std::move(low), sums, level.h};
        const Level& next = plan.levels[l + 1];
        const Lattice lattice{sums.anchor, next.h, plan.tilt};
        const auto coarse = [&](Side& side, bool upward) {
            InexactWeights& fine = side.inexact;
            trim_grid_weights(fine);
            fine.error1 += bound_mass_outside_grid_level(side, level);
            // Each coarsening may multiply a 2-norm by sqrt 2. If many coarsenings follow, the 1-norm is the better
            // measure of errors.
            const double one = std::sqrt(fine.span) * std::exp(log_grid_tilt_factor(plan.tilt));
            if (one < std::exp2(0.5 * static_cast<double>(last - l)) * last_norm) {
                fine.error1 += std::sqrt(fine.span) * fine.error2 * (1 + 4 * u);
                fine.error2 = 0;
            }
            return transform_grid_weights(coarsen_grid_weights(fine, lattice, upward), next.window.exponents, next.h,
                                          next.n);
        };
        auto made = std::make_shared<Coarse>();
        made->upper = coarse(high, true);
        made->lower = coarse(low, false);
        made->sums = sums;
        made->units = work::spent() - start;
        Store::get_shared_store().keep_result_in_store<Coarse>(cut_grid_level_key(key, ends[l]), made,
                                                               made->count_grid_level_bytes());
        before = made;
    }
}

}  // namespace tightdp::grid
