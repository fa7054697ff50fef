// Multiplies the spectra of the distributions of one level (level.hpp). A spectrum is the Fourier transform of a
// distribution's weights on the level's lattice (compose.hpp).
#include "level.hpp"

#include <cmath>

#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

// Largest number of distinct distributions whose spectra are all cached one by one. For more distributions, products of
// the first ones are cached (LevelRun::fold), and the spectra of the last two if these have more than one step.
constexpr std::size_t kFewLaws = 8;

const Fold nothing{};

Key words_of(const Placed& p) {
    return {p.part->law->id, word(p.count), word(p.scale), static_cast<std::uint64_t>(p.first), p.cells};
}

}  // namespace

double remaining(const Plan& plan, std::size_t level) {
    return std::ldexp(1.0, 2 * static_cast<int>(plan.levels.size() - 1 - level));
}

Key beginning(const Key& key, std::size_t length) {
    return {key.begin(), key.begin() + static_cast<std::ptrdiff_t>(length)};
}

LevelRun::LevelRun(const std::vector<Part>& parts, const Plan& plan, std::size_t number)
    : plan_(plan),
      level_(plan.levels[number]),
      remaining_(remaining(plan, number)),
      words_(lattice_words()),
      possible_(level_.possible) {
    for (std::size_t j = 0; j < parts.size() && possible_; ++j) {
        const double count = level_.steps[j];
        if (!(count > 0)) continue;
        const bool keep = parts.size() <= kFewLaws || (parts[j].count > 1 && j + 2 >= parts.size());
        Placed p{&parts[j], count, plan.scales[j], 0, 0, keep};
        possible_ = place(plan.ranges[j], lattice(parts[j]), plan.most_cells, p.first, p.cells);
        const Key one = words_of(p);
        words_.insert(words_.end(), one.begin(), one.end());
        ends_.push_back(words_.size());
        placed_.push_back(p);
    }
}

Key LevelRun::lattice_words() const {
    const TailExponents& f = level_.window.exponents;
    return {word(plan_.tilt),  word(level_.h),    level_.n,        word(f.right_unit),
            word(f.left_unit), word(f.left_from), word(remaining_)};
}

std::shared_ptr<const Fold> LevelRun::fold() const {
    Store& store = Store::shared();
    const bool kept = placed_.size() > kFewLaws;
    Key key{kFold};
    key.insert(key.end(), words_.begin(), words_.end());
    std::vector<std::size_t> ends = ends_;
    for (std::size_t& end : ends) ++end;
    std::size_t done = 0;
    std::shared_ptr<const Fold> found = kept ? store.find_longest<Fold>(key, ends, done) : nullptr;
    const std::size_t known = done;
    const std::int64_t before = work::spent();
    if (found) work::spend(found->units);
    std::shared_ptr<Fold> now;  // a product that is not in the store, so that it may be changed
    for (; done < placed_.size(); ++done) {
        const std::shared_ptr<Fold> next = now ? now : std::make_shared<Fold>();
        times(now ? *now : found ? *found : nothing, placed_[done], *next);
        next->units = work::spent() - before;
        now = next;
        // A later call often has a composition with one more distribution, or with one more step of the last
        // distribution. The product that such a call can start from is kept.
        const std::size_t left = placed_.size() - 1 - done;
        if (kept && (left == 1 || (left == 0 && placed_[done].part->count == 1))) {
            found = now;
            now = nullptr;
            store.keep<Fold>(beginning(key, ends[done]), found, found->bytes());
        }
    }
    const bool longer = known > 0 && known < placed_.size();
    if (longer && placed_.back().part->count == 1) store.not_needed(key, ends[known - 1]);
    return now ? now : found ? found : std::make_shared<Fold>();
}

std::shared_ptr<const Leaf> LevelRun::leaf(const Placed& p) const {
    Key key{kLaw};
    const Key where = lattice_words(), one = words_of(p);
    key.insert(key.end(), where.begin(), where.end() - 1);  // without remaining_: a spectrum does not depend on it
    key.insert(key.end(), one.begin(), one.end());
    key[where.size() + 1] = 0;  // without the count: a spectrum does not depend on the count either
    if (p.keep)
        if (auto found = Store::shared().find<Leaf>(key)) {
            work::spend(found->units);
            return found;
        }
    const std::int64_t before = work::spent();
    Discretised d;
    discretise(*p.part->law, lattice(*p.part), p.scale, p.first, p.cells, d);
    auto made = std::make_shared<Leaf>();
    static_cast<BothSides&>(*made) = d;
    const auto side = [&](Weights& w) {
        Inexact law{std::move(w)};
        law.last = d.last;
        return transform(law, level_.window.exponents, level_.h, level_.n);
    };
    made->upper = side(d.upper);
    made->lower = side(d.lower);
    made->units = work::spent() - before;
    if (p.keep) Store::shared().keep<Leaf>(std::move(key), made, made->bytes());
    return made;
}

void LevelRun::times(const Fold& before, const Placed& p, Fold& after) const {
    const auto one = leaf(p);
    multiply(before.upper, one->upper, p.count, after.upper);
    multiply(before.lower, one->lower, p.count, after.lower);
    const double anchor = p.part->law->anchor, steps = p.count * remaining_;
    StepSums t = before.sums;
    t.anchor += p.count * anchor;
    t.slack += steps * (one->slack + 4 * u * std::abs(anchor)) + 2 * u * remaining_ * std::abs(t.anchor);
    t.terms += 1;
    t.log_finite_upper += steps * log_without(one->infinity_upper);
    t.log_finite_lower += steps * log_without(one->infinity_lower);
    t.work += 0.5 * one->work;
    after.sums = t;
}

}  // namespace tightdp::grid
