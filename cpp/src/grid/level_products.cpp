// Multiplies the spectra of the distributions of one level (level_products.hpp). A spectrum is the Fourier transform of
// a distribution's weights on the level's lattice (grid_spectra.hpp).
#include "level_products.hpp"

#include <cmath>

#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

// Largest number of distinct distributions whose spectra are all cached one by one. If there are more distributions,
// products of spectra are cached instead (LevelSteps::multiply_grid_level_spectra). In addition, each of the last two
// spectra is cached if its distribution has more than one step.
constexpr std::size_t kFewDistributions = 8;

const LevelProduct nothing{};

Key list_grid_part_key_words(const Placed& p) {
    return {p.part->losses->id, result_store_word(p.count), result_store_word(p.scale),
            static_cast<std::uint64_t>(p.first), p.cells};
}

}  // namespace

double count_grid_steps_per_level_step(const Plan& plan, std::size_t level) {
    return std::ldexp(1.0, 2 * static_cast<int>(plan.levels.size() - 1 - level));
}

Key cut_grid_level_key(const Key& key, std::size_t length) {
    return {key.begin(), key.begin() + static_cast<std::ptrdiff_t>(length)};
}

LevelSteps::LevelSteps(const std::vector<Part>& parts, const Plan& plan, std::size_t number)
    : grid_plan_(plan),
      level_(plan.levels[number]),
      remaining_(count_grid_steps_per_level_step(plan, number)),
      words_(list_level_grid_words()),
      possible_(level_.possible) {
    for (std::size_t j = 0; j < parts.size() && possible_; ++j) {
        const double count = level_.steps[j];
        if (!(count > 0)) continue;
        const bool keep = parts.size() <= kFewDistributions || (parts[j].count > 1 && j + 2 >= parts.size());
        Placed p{&parts[j], count, plan.scales[j], 0, 0, keep};
        possible_ = place_on_grid(plan.ranges[j], make_grid_of_level(parts[j]), plan.most_cells, p.first, p.cells);
        const Key one = list_grid_part_key_words(p);
        words_.insert(words_.end(), one.begin(), one.end());
        ends_.push_back(words_.size());
        placed_.push_back(p);
    }
}

Key LevelSteps::list_level_grid_words() const {
    const TailExponents& f = level_.window.exponents;
    return {result_store_word(grid_plan_.tilt), result_store_word(level_.h),    level_.n,
            result_store_word(f.right_unit),    result_store_word(f.left_unit), result_store_word(f.left_from),
            result_store_word(remaining_)};
}

std::shared_ptr<const LevelProduct> LevelSteps::multiply_grid_level_spectra() const {
    Store& store = Store::get_shared_store();
    const bool kept = placed_.size() > kFewDistributions;
    Key key{kLevelProduct};
    key.insert(key.end(), words_.begin(), words_.end());
    std::vector<std::size_t> ends = ends_;
    for (std::size_t& end : ends) ++end;
    std::size_t done = 0;
    std::shared_ptr<const LevelProduct> found =
        kept ? store.find_longest_stored_result<LevelProduct>(key, ends, done) : nullptr;
    const std::size_t known = done;
    const std::int64_t before = work::spent();
    if (found) work::spend(found->units);
    std::shared_ptr<LevelProduct> now;  // a product that is not in the store, so that it may be changed
    for (; done < placed_.size(); ++done) {
        const std::shared_ptr<LevelProduct> next = now ? now : std::make_shared<LevelProduct>();
        multiply_by_grid_level_part(now ? *now : found ? *found : nothing, placed_[done], *next);
        next->units = work::spent() - before;
        now = next;
        // A later call often has a composition with one more distribution, or with one more step of the last
        // distribution. The product that such a call can start from is kept.
        const std::size_t left = placed_.size() - 1 - done;
        if (kept && (left == 1 || (left == 0 && placed_[done].part->count == 1))) {
            found = now;
            now = nullptr;
            store.keep_result_in_store<LevelProduct>(cut_grid_level_key(key, ends[done]), found,
                                                     found->count_grid_level_bytes());
        }
    }
    const bool longer = known > 0 && known < placed_.size();
    if (longer && placed_.back().part->count == 1) store.mark_stored_unneeded(key, ends[known - 1]);
    return now ? now : found ? found : std::make_shared<LevelProduct>();
}

std::shared_ptr<const PartSpectra> LevelSteps::transform_grid_level_part(const Placed& p) const {
    Key key{kPartSpectra};
    const Key where = list_level_grid_words(), one = list_grid_part_key_words(p);
    key.insert(key.end(), where.begin(), where.end() - 1);  // without remaining_: a spectrum does not depend on it
    key.insert(key.end(), one.begin(), one.end());
    key[where.size() + 1] = 0;  // without the count: a spectrum does not depend on the count either
    if (p.keep)
        if (auto found = Store::get_shared_store().find_stored_result<PartSpectra>(key)) {
            work::spend(found->units);
            return found;
        }
    const std::int64_t before = work::spent();
    Discretised d;
    discretise_on_grid(*p.part->losses, make_grid_of_level(*p.part), p.scale, p.first, p.cells, d);
    auto made = std::make_shared<PartSpectra>();
    static_cast<BothSides&>(*made) = d;
    const auto side = [&](Weights& w) {
        InexactWeights inexact{std::move(w)};
        inexact.last = d.last;
        return transform_grid_weights(inexact, level_.window.exponents, level_.h, level_.n);
    };
    made->upper = side(d.upper);
    made->lower = side(d.lower);
    made->units = work::spent() - before;
    if (p.keep)
        Store::get_shared_store().keep_result_in_store<PartSpectra>(std::move(key), made,
                                                                    made->count_grid_level_bytes());
    return made;
}

void LevelSteps::multiply_by_grid_level_part(const LevelProduct& before, const Placed& p, LevelProduct& after) const {
    const auto one = transform_grid_level_part(p);
    multiply_grid_spectra(before.upper, one->upper, p.count, after.upper);
    multiply_grid_spectra(before.lower, one->lower, p.count, after.lower);
    const double anchor = p.part->losses->anchor, steps = p.count * remaining_;
    StepSums t = before.sums;
    t.anchor += p.count * anchor;
    t.slack += steps * (one->slack + 4 * u * std::abs(anchor)) + 2 * u * remaining_ * std::abs(t.anchor);
    t.terms += 1;
    t.log_finite_upper += steps * log_grid_finite_mass(one->infinity_upper);
    t.log_finite_lower += steps * log_grid_finite_mass(one->infinity_lower);
    t.work += 0.5 * one->work;
    after.sums = t;
}

}  // namespace tightdp::grid
