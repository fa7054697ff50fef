#include "tightdp/accounting/composition.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "contour/epsilon_and_delta.hpp"
#include "grid/grid_engine.hpp"
#include "runtime/arithmetic.hpp"
#include "runtime/compensated_sum.hpp"
#include "runtime/work_budget.hpp"
#include "tightdp/accounting/gaussian.hpp"

namespace tightdp {

struct Mechanism::Content {
    struct Pairs {
        grid::LossDistributionPair remove, add;
    };

    std::vector<double> key;      // equal mechanisms have equal keys
    double noise_multiplier = 0;  // noise multiplier of a Gaussian, otherwise 0
    double sampling_probability = 1;
    std::vector<grid::Weight> weights;  // shifts of a mixture of Gaussians, and their probabilities
    double shift = 1;  // largest distance between the means for neighbouring data sets, in units of the sensitivity
    bool sampleable = true, reveals_nothing = false, replaced = false;
    // The privacy loss distributions of removing and of adding a record. Each is bounded from above and from below.
    grid::LossDistributionPair remove, add;
    // Makes the distributions of replacing a record, in both directions. Both directions have equal distributions
    // unless only bounds are known.
    std::function<Pairs()> replace;
};

namespace {

using Content = Mechanism::Content;
using Part = Composition::Part;

// Intended relative errors of the contour engine, which composes Gaussians (contour/epsilon_and_delta.hpp), and of the
// grid engine, which composes all mechanisms (grid/grid_engine.hpp). kMostPoints is the number of points of the largest
// grid. Python uses the same numbers (engines/contour.py and engines/grid/engine.py in python/tightdp/accounting).
constexpr double kTolerance = 1e-11, kWidth = 1e-6;
constexpr std::size_t kMostPoints = std::size_t{1} << 20;

// Units of work (runtime/work_budget.hpp) for one bound, which takes about two seconds, and for a search. The work is
// limited because a caller in C cannot interrupt the computation.
constexpr std::int64_t kUnits = 1'000'000'000, kSearchUnits = 15 * kUnits;

constexpr double kMostCount = 0x1p53;

// A description of what is wrong with the C library, or an empty string. The fault is determined when this library is
// loaded.
const std::string fault_of_library = find_library_fault();

void check_accounting_arithmetic() {
    if (const char* fault = arithmetic_fault()) throw std::runtime_error(fault);
    if (!fault_of_library.empty()) throw std::runtime_error(fault_of_library);
}

// Throws std::invalid_argument unless the condition holds. Conditions must be false for NaN.
void require_accounting_argument(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

bool is_accounting_number_between(double x, double low, double high) {
    return x >= low && x <= high;
}
bool is_accounting_count(double x) {
    return x >= 1 && x < kMostCount && x == std::floor(x);
}

enum Kind { kGaussian, kLaplace, kDiscreteGaussian, kDiscreteLaplace, kPair, kRange, kResponse, kMixture };

grid::LossDistributionPair make_exact_accounting_pair(const grid::LossDistributionPtr& losses) {
    return {losses, losses};
}

// Returns a mechanism whose privacy loss has the same distribution for adding and for removing a record.
// make_replaced() makes the distribution for replacing a record.
template <class Make>
Content make_symmetric_accounting_content(std::vector<double> key, const grid::LossDistributionPair& pair,
                                          Make make_replaced) {
    Content made;
    made.key = std::move(key);
    made.remove = made.add = pair;
    made.replace = [=] {
        const grid::LossDistributionPair replaced = make_replaced();
        return Content::Pairs{replaced, replaced};
    };
    return made;
}

void require_accounting_noise(double noise_multiplier) {
    require_accounting_argument(is_accounting_number_between(noise_multiplier, 1e-6, 1e12),
                                "noise_multiplier: expected a number in [1e-6, 1e12]");
}

void require_accounting_sensitivity(double sensitivity) {
    require_accounting_argument(is_accounting_count(sensitivity) && sensitivity <= 1e6,
                                "sensitivity: expected an integer in [1, 1e6]");
}

std::shared_ptr<const Content> share_accounting_content(Content made) {
    return std::make_shared<const Content>(std::move(made));
}

// Returns the distributions of replacing a record in a Poisson sample. These are exact (replace.md, sections 1 to 3 and
// 8) except for Laplace noise and bounded range, for which only bounds are known (grid.md, section 6.2).
Content::Pairs replace_in_accounting_sample(const Content& inner, double q) {
    const auto kind = static_cast<Kind>(inner.key[0]);
    grid::LossDistributionPair pair;
    if (kind == kGaussian) {
        pair = make_exact_accounting_pair(grid::make_replaced_gaussian_losses(1 / inner.noise_multiplier, q));
    } else if (kind == kMixture) {
        std::vector<grid::Weight> weights;
        const bool still = inner.weights.front().shift == 0;
        weights.push_back({0, (1 - q) + (still ? q * inner.weights.front().probability : 0)});
        for (const auto& [shift, probability] : inner.weights)
            if (shift > 0) weights.push_back({shift, q * probability});
        pair = grid::bound_gaussian_mixture_losses(weights, weights, inner.key[1], 0, 16 * kUnitRoundoff);
    } else if (kind == kPair) {
        pair = grid::make_replaced_approximate_dp_losses(inner.key[1], inner.key[2], q);
    } else if (kind == kDiscreteGaussian) {
        pair = make_exact_accounting_pair(grid::make_replaced_discrete_gaussian_losses(inner.key[1], inner.key[2], q));
    } else if (kind == kDiscreteLaplace) {
        pair = make_exact_accounting_pair(grid::make_replaced_discrete_laplace_losses(inner.key[1], inner.key[2], q));
    } else if (kind == kLaplace) {
        pair = {grid::make_replace_one_losses(inner.replace().remove.upper, q),
                grid::make_replaced_laplace_member_losses(1 / inner.key[1], q)};
    } else {
        const grid::LossDistributionPtr upper = grid::make_replace_one_losses(inner.replace().remove.upper, q);
        return {{upper, grid::make_poisson_sampled_losses(inner.remove.lower, q, false)},
                {upper, grid::make_poisson_sampled_losses(inner.remove.lower, q, true)}};
    }
    return {pair, pair};
}

// Sorts parts and merges parts with equal mechanisms, unless their counts would reach 2^53. Leaves out mechanisms that
// reveal nothing.
std::vector<Part> merge_accounting_parts(std::span<const Part> given) {
    std::vector<Part> parts, found;
    for (const Part& part : given)
        if (!part.mechanism.accounting_content().reveals_nothing) parts.push_back(part);
    std::ranges::stable_sort(parts, {},
                             [](const Part& part) -> const auto& { return part.mechanism.accounting_content().key; });
    for (const Part& part : parts)
        if (!found.empty() &&
            found.back().mechanism.accounting_content().key == part.mechanism.accounting_content().key &&
            found.back().count + part.count < kMostCount)
            found.back().count += part.count;
        else
            found.push_back(part);
    return found;
}

bool are_accounting_parts_gaussian(const std::vector<Part>& parts) {
    return std::ranges::all_of(
        parts, [](const Part& part) { return part.mechanism.accounting_content().noise_multiplier > 0; });
}

// Returns the sum of mu^2 over all Gaussians, where mu = shift / noise_multiplier. The relative error is at most 2^-51
// (contour.md, section 5.3). `sampled` tells whether Gaussians on samples are included.
double sum_accounting_mu_squared(const std::vector<Part>& parts, bool sampled) {
    CompensatedSum mu2;
    for (const auto& [mechanism, count] : parts) {
        const Content& one = mechanism.accounting_content();
        if (sampled || one.sampling_probability == 1)
            mu2 += count * (one.shift * one.shift) / (one.noise_multiplier * one.noise_multiplier);
    }
    return mu2;
}

// Returns mu of the one Gaussian that equals the composition of all parts without sampling. This Gaussian dominates the
// composition with sampling (grid.md, section 6.1). Returns nothing if a part is not Gaussian, or if mu is outside of
// the range of the closed form.
std::optional<double> find_unsampled_accounting_mu(const std::vector<Part>& parts) {
    if (!are_accounting_parts_gaussian(parts)) return std::nullopt;
    const double mu = std::sqrt(sum_accounting_mu_squared(parts, true)) * (1 + 8 * kUnitRoundoff);
    return mu >= kGaussianMuMin && mu <= kGaussianMuMax ? std::optional(mu) : std::nullopt;
}

// Returns an upper bound on the privacy loss of all parts together, or infinity if the loss is unbounded.
double bound_accounting_loss(const std::vector<Part>& parts) {
    double sum = 0;
    for (const auto& [mechanism, count] : parts) {
        double top = 0;
        for (const grid::LossDistributionPair* pair :
             {&mechanism.accounting_content().remove, &mechanism.accounting_content().add})
            top = std::max(top, pair->upper->infinity > 0 ? HUGE_VAL : pair->upper->largest_finite_loss());
        sum += count * top * (1 + 2 * kUnitRoundoff);
    }
    return sum * (1 + 2 * kUnitRoundoff * static_cast<double>(parts.size() + 1));
}

std::vector<grid::Part> list_accounting_grid_parts(const std::vector<Part>& parts, bool add, bool upper) {
    std::vector<grid::Part> found;
    for (const auto& [mechanism, count] : parts) {
        const grid::LossDistributionPair& pair =
            add ? mechanism.accounting_content().add : mechanism.accounting_content().remove;
        found.push_back({upper ? pair.upper : pair.lower, count});
    }
    return found;
}

template <class Question>
Interval bound_accounting_by_grid(const std::vector<Part>& parts, bool add, double at, Question question) {
    const grid::Bounds found = question(list_accounting_grid_parts(parts, add, true), at, kWidth, kMostPoints);
    const bool exact = std::ranges::all_of(parts, [=](const Part& part) {
        const grid::LossDistributionPair& pair =
            add ? part.mechanism.accounting_content().add : part.mechanism.accounting_content().remove;
        return pair.lower == pair.upper;
    });
    if (exact) return {found.lower, found.upper};
    return {question(list_accounting_grid_parts(parts, add, false), at, kWidth, kMostPoints).lower, found.upper};
}

// Returns the larger of the results for the two directions. Each result comes from the contour engine or, if the
// contour engine declines, from the grid engine. `parts` is not empty.
template <class Contour, class Grid>
Interval bound_worse_accounting_relation(const std::vector<Part>& parts, double at, Contour by_contour, Grid question) {
    const work::Budget budget(kUnits);
    const bool gaussians = are_accounting_parts_gaussian(parts),
               replaced = parts.front().mechanism.accounting_content().replaced;
    std::vector<contour::Sampled> sampled;
    for (const auto& [mechanism, count] : parts)
        if (const Content& one = mechanism.accounting_content(); gaussians && one.sampling_probability < 1)
            sampled.push_back({one.noise_multiplier, one.sampling_probability, count});
    const bool alike = std::ranges::all_of(parts, [](const Part& part) {
        const grid::LossDistributionPair &remove = part.mechanism.accounting_content().remove,
                                         &add = part.mechanism.accounting_content().add;
        return remove.upper == add.upper && remove.lower == add.lower;
    });
    Interval both{0, 0};
    for (const bool add : {false, true}) {
        std::optional<Interval> one;
        if (gaussians) {
            const contour::Direction direction =
                replaced ? contour::Direction::replace : contour::contour_composition_direction(add);
            const contour::Composition composition{sampled, sum_accounting_mu_squared(parts, false), direction};
            const contour::Result found = by_contour(composition, at, kTolerance);
            if (found.status == contour::Status::certified) one = {found.lower, found.upper};
        }
        if (!one) one = bound_accounting_by_grid(parts, add, at, question);
        both = {std::max(both.lower, one->lower), std::max(both.upper, one->upper)};
        if (alike) break;
    }
    return both;
}

// The search for the least parameter that meets the target (epsilon, delta). The gap of a parameter is ln(b / epsilon),
// where b is the upper bound on epsilon that the parameter gives. A parameter meets the target if its gap is at most 0.
// The search narrows an interval of logarithms of parameters by the method of false position, and by bisection where
// false position is slow.
class AccountingSearch {
  public:
    AccountingSearch(const std::function<Composition(double)>& run, double epsilon, double delta)
        : make_composition_(run), epsilon_(epsilon), delta_(delta) {}

    double solve_accounting_search(double low, double high) {
        const work::Budget budget(kSearchUnits);
        // The search begins at 1 and goes outwards, because parameters at the ends of the range are seldom the result
        // and may take long.
        double x = std::clamp(1.0, low, high), ratio = 2;
        double gap = measure_accounting_gap(x);
        const bool met = gap <= 0;
        while (true) {
            (gap <= 0 ? high_ : low_) = {x, gap};
            if ((gap <= 0) != met || x == (met ? low : high)) break;
            x = met ? std::max(low, x / ratio) : std::min(high, x * ratio);
            ratio *= ratio;
            gap = measure_accounting_gap(x);
        }
        if (!high_) throw std::invalid_argument("epsilon: expected a target that the parameter `high` meets");
        if (low_) narrow_accounting_search();
        return high_->x;
    }

  private:
    struct Point {
        double x, gap;
    };

    double measure_accounting_gap(double x) const {
        try {
            const double upper = make_composition_(x).epsilon(delta_).upper;
            if (upper <= epsilon_) return upper > 0 ? std::min(std::log(upper / epsilon_), 0.0) : -HUGE_VAL;
            return epsilon_ > 0 ? std::max(std::log(upper / epsilon_), 0x1p-1000) : HUGE_VAL;
        } catch (const std::invalid_argument&) {
            return HUGE_VAL;
        }
    }

    void narrow_accounting_search() {
        bool halve = false;
        while (high_->x > low_->x * (1 + kNear) && !(high_->gap > -kNear) && !work::is_work_budget_exhausted()) {
            const double left = std::log(low_->x), width = std::log(high_->x / low_->x);
            const double share = low_->gap / (low_->gap - high_->gap);  // NaN if both gaps are infinite
            const bool usable = !halve && share > 0 && share < 1;
            // The next parameter is the root of the line through the two ends, moved a little to the side of high_, so
            // that it probably meets the target.
            const double step = usable ? std::min(width * share + 0.25 * kNear, width) : 0.5 * width;
            double x = std::exp(left + step);
            if (!(x > low_->x && x < high_->x)) x = 0.5 * (low_->x + high_->x);
            if (!(x > low_->x && x < high_->x)) break;
            const double gap = measure_accounting_gap(x);
            (gap <= 0 ? high_ : low_) = {x, gap};
            halve = usable && std::log(high_->x / low_->x) > 0.5 * width;
        }
    }

    static constexpr double kNear = 1e-9;

    const std::function<Composition(double)>& make_composition_;
    double epsilon_, delta_;
    std::optional<Point> low_, high_;
};

}  // namespace

Mechanism Mechanism::gaussian(double noise_multiplier) {
    check_accounting_arithmetic();
    require_accounting_noise(noise_multiplier);
    Content made = make_symmetric_accounting_content(
        {kGaussian, noise_multiplier}, make_exact_accounting_pair(grid::make_gaussian_losses(1 / noise_multiplier)),
        [=] { return make_exact_accounting_pair(grid::make_gaussian_losses(2 / noise_multiplier)); });
    made.noise_multiplier = noise_multiplier;
    return Mechanism(share_accounting_content(std::move(made)));
}

Mechanism Mechanism::laplace(double noise_multiplier) {
    check_accounting_arithmetic();
    require_accounting_noise(noise_multiplier);
    return Mechanism(share_accounting_content(make_symmetric_accounting_content(
        {kLaplace, noise_multiplier}, make_exact_accounting_pair(grid::make_laplace_losses(1 / noise_multiplier)),
        [=] { return make_exact_accounting_pair(grid::make_laplace_losses(2 / noise_multiplier)); })));
}

Mechanism Mechanism::discrete_gaussian(double sigma, double sensitivity) {
    check_accounting_arithmetic();
    require_accounting_argument(is_accounting_number_between(sigma, 1e-6, 20000),
                                "sigma: expected a number in [1e-6, 20000]");
    require_accounting_sensitivity(sensitivity);
    return Mechanism(share_accounting_content(make_symmetric_accounting_content(
        {kDiscreteGaussian, sigma, sensitivity},
        make_exact_accounting_pair(grid::make_discrete_gaussian_losses(sigma, sensitivity)),
        [=] { return make_exact_accounting_pair(grid::make_discrete_gaussian_losses(sigma, 2 * sensitivity)); })));
}

Mechanism Mechanism::discrete_laplace(double scale, double sensitivity) {
    check_accounting_arithmetic();
    require_accounting_argument(is_accounting_number_between(scale, 1e-6, 1e12),
                                "scale: expected a number in [1e-6, 1e12]");
    require_accounting_sensitivity(sensitivity);
    return Mechanism(share_accounting_content(make_symmetric_accounting_content(
        {kDiscreteLaplace, scale, sensitivity},
        make_exact_accounting_pair(grid::make_discrete_laplace_losses(scale, sensitivity)),
        [=] { return make_exact_accounting_pair(grid::make_discrete_laplace_losses(scale, 2 * sensitivity)); })));
}

Mechanism Mechanism::pure_dp(double epsilon) {
    return approximate_dp(epsilon, 0);
}

Mechanism Mechanism::approximate_dp(double epsilon, double delta) {
    check_accounting_arithmetic();
    require_accounting_argument(is_accounting_number_between(epsilon, 0, 1e6),
                                "epsilon: expected a number in [0, 1e6]");
    require_accounting_argument(is_accounting_number_between(delta, 0, 1), "delta: expected a number in [0, 1]");
    Content made = make_symmetric_accounting_content(
        {kPair, epsilon, delta}, make_exact_accounting_pair(grid::make_approximate_dp_losses(epsilon, delta)),
        [=] { return grid::make_replaced_approximate_dp_losses(epsilon, delta, 1); });
    made.reveals_nothing = epsilon == 0 && delta == 0;
    return Mechanism(share_accounting_content(std::move(made)));
}

Mechanism Mechanism::bounded_range(double eta) {
    check_accounting_arithmetic();
    require_accounting_argument(is_accounting_number_between(eta, 0, 1e6), "eta: expected a number in [0, 1e6]");
    Content made;
    made.reveals_nothing = eta == 0;
    // The upper distribution dominates every mechanism of bounded range eta. The lower distribution belongs to one of
    // these mechanisms: randomised response with the losses eta / 2 and -eta / 2. Replacing a record doubles the range.
    const auto pair = [](double range) {
        return grid::LossDistributionPair{grid::make_range_losses(range),
                                          grid::make_approximate_dp_losses(range / 2, 0)};
    };
    if (eta > 0) made = make_symmetric_accounting_content({}, pair(eta), [=] { return pair(2 * eta); });
    made.key = {kRange, eta};
    return Mechanism(share_accounting_content(std::move(made)));
}

Mechanism Mechanism::randomized_response(double noise_parameter, double num_buckets) {
    check_accounting_arithmetic();
    require_accounting_argument(noise_parameter > 0 && noise_parameter <= 1,
                                "noise_parameter: expected a number in (0, 1]");
    require_accounting_argument(is_accounting_count(num_buckets) && num_buckets >= 2,
                                "num_buckets: expected an integer in [2, 2^53)");
    Content made;
    made.reveals_nothing = noise_parameter == 1;
    if (noise_parameter < 1) {
        const grid::LossDistributionPair pair =
            make_exact_accounting_pair(grid::make_randomized_response_losses(noise_parameter, num_buckets));
        made = make_symmetric_accounting_content({}, pair, [=] { return pair; });
    }
    made.key = {kResponse, noise_parameter, num_buckets};
    made.sampleable = false;
    return Mechanism(share_accounting_content(std::move(made)));
}

Mechanism Mechanism::mixture_of_gaussians(double noise_multiplier, std::span<const double> sensitivities,
                                          std::span<const double> probabilities) {
    check_accounting_arithmetic();
    require_accounting_noise(noise_multiplier);
    const std::size_t n = sensitivities.size();
    require_accounting_argument(n >= 1 && n <= 1000, "sensitivities: expected 1 to 1000 numbers");
    require_accounting_argument(probabilities.size() == n,
                                "probabilities: expected as many numbers as there are sensitivities");
    std::vector<grid::Weight> weights;
    CompensatedSum total;
    for (std::size_t i = 0; i < n; ++i) {
        require_accounting_argument(is_accounting_number_between(sensitivities[i], 0, 1e12),
                                    "sensitivities: expected distinct numbers in [0, 1e12]");
        require_accounting_argument(probabilities[i] > 0 && probabilities[i] <= 1,
                                    "probabilities: expected numbers in (0, 1]");
        weights.push_back({sensitivities[i] + 0.0, probabilities[i]});
        total += probabilities[i];
    }
    require_accounting_argument(std::abs(total - 1) <= 1e-9, "probabilities: expected numbers that add up to 1");
    std::ranges::sort(weights, {}, &grid::Weight::shift);
    require_accounting_argument(std::ranges::adjacent_find(weights, {}, &grid::Weight::shift) == weights.end(),
                                "sensitivities: expected distinct numbers in [0, 1e12]");
    require_accounting_argument(
        is_accounting_number_between(weights.back().shift / noise_multiplier, grid::kLeastShift, grid::kMostShift),
        "sensitivities: expected the largest between 1e-9 and 1e6 times noise_multiplier");
    Content made;
    made.key = {kMixture, noise_multiplier};
    for (grid::Weight& one : weights) {
        one.probability /= total;
        made.key.insert(made.key.end(), {one.shift, one.probability});
    }
    const std::vector<grid::Weight> nothing{{0, 1}};
    const double rel = 8 * kUnitRoundoff;  // relative error of the sum and the quotient
    made.remove = grid::bound_gaussian_mixture_losses(weights, nothing, noise_multiplier, 0, rel);
    made.add = grid::bound_gaussian_mixture_losses(nothing, weights, noise_multiplier, 0, rel);
    made.replace = [=] {
        const grid::LossDistributionPair pair =
            grid::bound_gaussian_mixture_losses(weights, weights, noise_multiplier, 0, rel);
        return Content::Pairs{pair, pair};
    };
    made.weights = std::move(weights);
    return Mechanism(share_accounting_content(std::move(made)));
}

Mechanism Mechanism::poisson_sampled(double sampling_probability) const {
    check_accounting_arithmetic();
    const double q = sampling_probability;
    require_accounting_argument(q > 0 && q <= 1, "sampling_probability: expected a number in (0, 1]");
    if (q == 1) return *this;
    require_accounting_argument(content_->sampleable,
                                "mechanism: expected one that is not sampled already, nor randomised response");
    Content made = *content_;
    made.sampling_probability = q;
    made.sampleable = false;
    made.key.push_back(q);
    if (made.reveals_nothing) return Mechanism(share_accounting_content(std::move(made)));
    const auto sample = [q](const grid::LossDistributionPair& pair, bool add) {
        const grid::LossDistributionPtr upper = grid::make_poisson_sampled_losses(pair.upper, q, add);
        return grid::LossDistributionPair{
            upper, pair.lower == pair.upper ? upper : grid::make_poisson_sampled_losses(pair.lower, q, add)};
    };
    made.remove = sample(content_->remove, false);
    made.add = sample(content_->add, true);
    made.replace = [q, inner = content_] { return replace_in_accounting_sample(*inner, q); };
    return Mechanism(share_accounting_content(std::move(made)));
}

Mechanism Mechanism::translate_for_accounting(Neighbors neighbors) const {
    // replace_special replaces a record by one that contributes nothing. This is like removing the record, because no
    // mechanism here releases the number of records.
    if (neighbors != Neighbors::replace || content_->reveals_nothing) return *this;
    Content made = *content_;
    const Content::Pairs pairs = made.replace();
    made.remove = pairs.remove;
    made.add = pairs.add;
    made.replaced = true;
    made.shift = 2;
    return Mechanism(share_accounting_content(std::move(made)));
}

Composition& Composition::add(const Mechanism& mechanism, double count) {
    require_accounting_argument(is_accounting_count(count), "count: expected an integer in [1, 2^53)");
    parts_.push_back({mechanism.translate_for_accounting(neighbors_), count});
    return *this;
}

Interval Composition::epsilon(double delta) const {
    check_accounting_arithmetic();
    require_accounting_argument(delta > 0 && delta < 1, "delta: expected a number in (0, 1)");
    const std::vector<Part> parts = merge_accounting_parts(parts_);
    if (parts.empty()) return {0, 0};
    Interval found = bound_worse_accounting_relation(parts, delta, contour::epsilon, grid::bound_grid_epsilon);
    if (found.upper < HUGE_VAL) return found;
    if (const auto mu = find_unsampled_accounting_mu(parts); mu && delta >= 1e-300)
        found.upper = gaussian_epsilon(*mu, delta).upper;
    else
        found.upper = std::max(found.lower, bound_accounting_loss(parts));
    return found;
}

Interval Composition::delta(double epsilon) const {
    check_accounting_arithmetic();
    require_accounting_argument(std::isfinite(epsilon), "epsilon: expected a finite number");
    const std::vector<Part> parts = merge_accounting_parts(parts_);
    if (parts.empty()) {
        const Interval known = interval_around(-std::expm1(std::min(epsilon, 0.0)), 8 * kUnitRoundoff);
        return epsilon >= 0 ? Interval{0, 0} : Interval{known.lower, std::min(known.upper, 1.0)};
    }
    Interval found = bound_worse_accounting_relation(parts, epsilon, contour::delta, grid::bound_grid_delta);
    if (const auto mu = find_unsampled_accounting_mu(parts); mu && !(found.upper < 1))
        found.upper = gaussian_bounds(*mu, epsilon).delta.upper;
    return found;
}

double calibrate(const std::function<Composition(double)>& run, double epsilon, double delta, double low, double high) {
    check_accounting_arithmetic();
    require_accounting_argument(epsilon >= 0 && epsilon < HUGE_VAL, "epsilon: expected a number in [0, inf)");
    require_accounting_argument(delta > 0 && delta < 1, "delta: expected a number in (0, 1)");
    require_accounting_argument(low > 0 && low < HUGE_VAL, "low: expected a positive number");
    require_accounting_argument(high > low && high < HUGE_VAL, "high: expected a number above low");
    return AccountingSearch(run, epsilon, delta).solve_accounting_search(low, high);
}

double noise_multiplier(double epsilon, double delta, double sampling_probability, double steps) {
    const auto run = [=](double noise) {
        return Composition().add(Mechanism::gaussian(noise).poisson_sampled(sampling_probability), steps);
    };
    run(1);  // throws if an argument is invalid whatever the noise
    return calibrate(run, epsilon, delta, 1e-4, 1e6);
}

}  // namespace tightdp
