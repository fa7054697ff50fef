// Composes privacy loss distributions level by level, as a plan describes (plan.hpp; docs/theory/grid.md, sections 5.1
// to 5.3). In this file, a product is a product of spectra, the Fourier transforms of weights (compose.hpp).
#include "run.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "level.hpp"
#include "runtime/work_budget.hpp"
#include "store.hpp"

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
Outside outside(const Product& product, const Level& level) {
    const TailExponents& exponents = level.window.exponents;
    const auto first = static_cast<double>(level.first), n = static_cast<double>(level.n);
    Outside out{{exponents.right(), product.right, product.most >= first + n},
                {exponents.left(), product.left, product.least < first}};
    const double rounding = (8 + 2 * product.terms) * u * product.moments_size;
    for (Tail* tail : {&out.right, &out.left})
        for (double& moment : tail->moments) moment += rounding;
    if (product.reach < kMostIndex && !product.nothing) out.last = product.last;
    return out;
}

// Returns a bound on the tilted mass (lattice.hpp) outside of the window, in units of the side's weights. The weights
// are wound round a circle as long as the window. So mass that belongs outside of the window is missing there, and
// appears at points inside. The bound holds for the missing mass and for the mass that appears at wrong points.
double outside_mass(const Side& side, const Level& level) {
    const Inexact& law = side.law;
    const double from = static_cast<double>(level.first) * level.h, to = from + static_cast<double>(level.n) * level.h;
    const double error = law.log_error + 4 * u * std::abs(law.w.log_scale);
    const auto mass = [&](double log) { return std::exp(log - law.w.log_scale + error); };
    return mass(side.beyond.right.least(0, to)) + mass(side.beyond.left.least(0, from));
}

// Returns a result for a plan that cannot be carried out. Its errors are infinite, so that it bounds nothing.
Composed failed(const Level& level) {
    Side nothing;
    nothing.law.w.w = std::vector<double>(4);
    nothing.law.error1 = nothing.law.last = HUGE_VAL;
    return {nothing, nothing, {}, level.h};
}

// Returns the upper or the lower side of a level from the product of its spectra. If there is no product, the side's
// weights are zero and its error is infinite.
Side finished(const Product& product, const Level& level) {
    Side out{{}, outside(product, level)};
    if (product.nothing || product.empty) {
        out.law.w = {level.first, std::vector<double>(level.n), 0};
        out.law.error1 = HUGE_VAL;
    } else {
        out.law = weights_of(product, level.first);
    }
    out.law.last = out.beyond.last;
    return out;
}

// Returns the ratio of the 1-norm of `w` to the 1-norm of `below`, rounded up and at least 1. `below` has the weights
// of the lower side on the coarser lattice, which were computed from the weights `w` on the finer lattice.
double lowered(const Weights& w, const Weights& below) {
    const double have = std::accumulate(w.w.begin(), w.w.end(), 0.0);
    const double left = std::accumulate(below.w.begin(), below.w.end(), 0.0);
    const double points = static_cast<double>(w.w.size() + below.w.size());
    return std::max(1.0, have / left * std::exp(w.log_scale - below.log_scale)) * (1 + 2 * u * points + 0x1p-40);
}

}  // namespace

Inexact coarsen(const Inexact& fine, const Lattice& lattice, bool upper) {
    Weights coarse = coarsen(fine.w, lattice, upper);
    // The errors of the weights move to the coarser lattice as the weights do. Splitting an error among neighbouring
    // points multiplies its 1-norm by at most e^{tilt h}, and its 2-norm by at most sqrt(2) e^{tilt h}.
    //
    // The next level takes the fourth power of the coarse weights. In the fourth power, an error is multiplied by three
    // factors of weights. A valid bound uses the 1-norm of the fine weights for each factor, but multiply() uses the
    // 1-norm of the coarse weights. On the lower side, the norm of the coarse weights may be smaller. Therefore the
    // error is multiplied here by the cube of the ratio of these norms (grid.md, section 5.2).
    const double lean = std::exp(lattice.tilt * lattice.h);
    const double more = upper ? lean : lean * std::pow(lowered(fine.w, coarse), 3);
    return {std::move(coarse), fine.error1 * more,         fine.error2 * more * std::sqrt(2.0),
            fine.log_error,    std::ceil(0.5 * fine.last), 0.5 * fine.span + 2};
}

double StepSums::infinity(bool high) const {
    const double rel = (16 + 4 * terms) * u;
    const double log = high ? log_finite_upper : log_finite_lower;
    const double mass = -std::expm1(log);
    return high ? std::min(1.0, mass * (1 + rel)) : mass * (1 - rel);
}

double log_without(double infinity) {
    return infinity < 1 ? std::log1p(-infinity) : -HUGE_VAL;
}

bool place(const Range& range, const Lattice& lattice, std::size_t most, std::int64_t& first, std::size_t& cells) {
    const double from = std::floor((range.left - lattice.anchor) / lattice.h - 1e-6);
    const double to = std::ceil((range.right - lattice.anchor) / lattice.h + 1e-6);
    if (!(std::abs(from) < kMostIndex && std::abs(to) < kMostIndex)) return false;
    first = static_cast<std::int64_t>(from);
    cells = static_cast<std::size_t>(std::clamp(to - from, 1.0, static_cast<double>(most)));
    return true;
}

Composed run(const std::vector<Part>& parts, const Plan& plan) {
    const std::size_t last = plan.levels.size() - 1;
    const double last_norm = kernel_norm(plan.tilt, plan.levels[last].h, static_cast<double>(plan.levels[last].n));
    std::vector<LevelRun> levels;
    for (std::size_t l = 0; l <= last; ++l) {
        levels.emplace_back(parts, plan, l);
        if (!levels.back().possible()) return failed(plan.levels[l]);
    }
    // The store keeps the Coarse of each level l under a key, which is the beginning of `key` up to ends[l]. This part
    // has everything from which the levels 0 to l are computed, and the lattice of level l + 1.
    Key key{kLevel, word(last_norm)};
    std::vector<std::size_t> ends;
    for (std::size_t l = 0; l < last; ++l) {
        const Key next = levels[l + 1].lattice_words();
        key.push_back(levels[l].words().size());
        key.insert(key.end(), levels[l].words().begin(), levels[l].words().end());
        key.push_back(static_cast<std::uint64_t>(plan.levels[l].first));
        key.insert(key.end(), next.begin(), next.end());
        ends.push_back(key.size());
    }
    std::size_t l = 0;
    const std::int64_t start = work::spent();
    std::shared_ptr<const Coarse> before = Store::shared().find_longest<Coarse>(key, ends, l);
    if (before) work::spend(before->units);
    for (;; ++l) {
        const Level& level = plan.levels[l];
        const auto fold = levels[l].fold();
        Product upper, lower;
        const Product *above = &fold->upper, *below = &fold->lower;
        StepSums sums = fold->sums;
        if (before) {
            multiply(*above, before->upper, 4, upper);
            multiply(*below, before->lower, 4, lower);
            above = &upper, below = &lower;
            const StepSums& t = before->sums;
            sums.anchor += 4 * t.anchor;
            sums.slack += t.slack + 2 * u * remaining(plan, l) * std::abs(sums.anchor);
            sums.terms += t.terms + 1;
            sums.log_finite_upper += t.log_finite_upper;
            sums.log_finite_lower += t.log_finite_lower;
            sums.work += t.work;
        }
        sums.work += static_cast<double>(level.n);
        Side high = finished(*above, level), low = finished(*below, level);
        if (l == last) return {std::move(high), std::move(low), sums, level.h};
        const Level& next = plan.levels[l + 1];
        const Lattice lattice{sums.anchor, next.h, plan.tilt};
        const auto coarse = [&](Side& side, bool upward) {
            Inexact& fine = side.law;
            trim(fine);
            fine.error1 += outside_mass(side, level);
            // Each coarsening may multiply a 2-norm by sqrt 2. If many coarsenings follow, the 1-norm is the better
            // measure of errors.
            const double one = std::sqrt(fine.span) * std::exp(log_kernel(plan.tilt));
            if (one < std::exp2(0.5 * static_cast<double>(last - l)) * last_norm) {
                fine.error1 += std::sqrt(fine.span) * fine.error2 * (1 + 4 * u);
                fine.error2 = 0;
            }
            return transform(coarsen(fine, lattice, upward), next.window.exponents, next.h, next.n);
        };
        auto made = std::make_shared<Coarse>();
        made->upper = coarse(high, true);
        made->lower = coarse(low, false);
        made->sums = sums;
        made->units = work::spent() - start;
        Store::shared().keep<Coarse>(beginning(key, ends[l]), made, made->bytes());
        before = made;
    }
}

}  // namespace tightdp::grid
