#include "grid_run.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "grid_estimate.hpp"
#include "grid_store.hpp"

namespace tightdp::grid {
namespace {

constexpr double u = kUnitRoundoff;
// Indices of lattice points are exact as doubles, and so are their sums.
constexpr double kMostIndex = 0x1p50;

// What adds up over the steps beside spectra.
struct Tally {
    double anchor = 0, slack = 0;
    double log_finite_upper = 0, log_finite_lower = 0;  // ln of the product of 1 - mass at infinity
    double terms = 0;                                   // of those sums
    double work = 0;                                    // as if nothing had been kept
};

// One law on one lattice, from above and from below.
struct Leaf {
    Spectrum upper, lower;
    double slack = 0, infinity_upper = 0, infinity_lower = 0, work = 0;

    std::size_t bytes() const { return (upper.z.size() + lower.z.size()) * sizeof(double); }
};

// The product of some parts of a level.
struct Fold {
    Product upper, lower;
    Tally tally;

    std::size_t bytes() const { return (upper.z.size() + lower.z.size()) * sizeof(double); }
};

// All levels up to one, on the lattice of the next.
struct Coarse {
    Spectrum upper, lower;
    Tally tally;

    std::size_t bytes() const { return (upper.z.size() + lower.z.size()) * sizeof(double); }
};

// Of so few distinct laws all are kept one by one; of more the product of all but the last is.
constexpr std::size_t kFewLaws = 8;

Outside outside(const Product& product, const Level& level) {
    Outside out;
    out.further = level.window.further;
    out.last = product.reach < kMostIndex && !product.nothing ? product.last : HUGE_VAL;  // as good as unknown
    const auto first = static_cast<double>(level.first), n = static_cast<double>(level.n);
    out.beyond_right = product.most >= first + n;
    out.beyond_left = product.least < first;
    const double rounding = (8 + 2 * product.terms) * u * product.moments_size;
    for (std::size_t i = 0; i < Further::kCount; ++i) {
        out.right[i] = product.right[i] + rounding;
        out.left[i] = product.left[i] + rounding;
    }
    return out;
}

// Tilted mass that is missing from the window, and mass that is in it though it belongs elsewhere, in units of the law.
double outside_mass(const Outside& o, const Inexact& law, const Level& level) {
    const double from = static_cast<double>(level.first) * level.h, to = from + static_cast<double>(level.n) * level.h;
    const double error = law.log_error + 4 * u * std::abs(law.w.log_scale);
    const auto mass = [&](double log) { return std::exp(log - law.w.log_scale + error); };
    return mass(o.least_right(0, to)) + mass(o.least_left(0, from));
}

// Curves that bound nothing.
Composed failed(Composed out, const Level& level) {
    out.upper = out.lower = Inexact{};
    out.upper.w.w = out.lower.w.w = std::vector<double>(4);
    out.upper.error1 = out.lower.error1 = HUGE_VAL;
    out.upper.last = out.lower.last = HUGE_VAL;
    out.outside_upper = out.outside_lower = Outside{};
    out.h = level.h;
    return out;
}

// One side of a level: what came out, or nothing.
Inexact finished(const Product& product, const Outside& beyond, const Level& level) {
    Inexact out;
    if (product.nothing || product.empty) {
        out.w = {level.first, std::vector<double>(level.n), 0};
        out.error1 = HUGE_VAL;
    } else {
        out = weights_of(product, level.first);
    }
    out.last = beyond.last;
    return out;
}

// One part where a level puts it.
struct Placed {
    const Part* part;
    double count, scale;
    std::int64_t first;
    std::size_t cells;
    bool keep;
};

// Steps of the whole that one of a level stands for.
double remaining(const Plan& plan, std::size_t level) {
    return std::ldexp(1.0, 2 * static_cast<int>(plan.levels.size() - 1 - level));
}

Words beginning(const Words& words, std::size_t length) {
    return {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(length)};
}

// What a level is made of but for the level before: its lattice and its parts, and the same as words of a key.
class LevelRun {
  public:
    LevelRun(const std::vector<Part>& parts, const Plan& plan, std::size_t number)
        : plan_(plan), level_(plan.levels[number]),
          remaining_(remaining(plan, number)), words_(lattice_words()) {
        possible_ = level_.possible;
        for (std::size_t j = 0; j < parts.size() && possible_; ++j) {
            const double count = level_.steps[j];
            if (!(count > 0)) continue;
            const bool keep = parts.size() <= kFewLaws || (parts[j].count > 1 && j + 2 >= parts.size());
            Placed p{&parts[j], count, plan.scales[j], 0, 0, keep};
            possible_ = place(plan.ranges[j], lattice(parts[j]), plan.most_cells, p.first, p.cells);
            const Words one = words_of(p);
            words_.insert(words_.end(), one.begin(), one.end());
            ends_.push_back(words_.size());
            placed_.push_back(p);
        }
    }

    bool possible() const { return possible_; }
    const Words& words() const { return words_; }
    Words lattice_words() const {
        const Further& f = level_.window.further;
        return {word(plan_.tilt),   word(level_.h),    level_.n,        word(f.right_unit),
                word(f.left_unit),  word(f.left_from), word(remaining_)};
    }

    // The product of all parts, from left to right.
    std::shared_ptr<const Fold> fold() const {
        Store& store = Store::shared();
        const bool kept = placed_.size() > kFewLaws;
        Words key{kFold};
        key.insert(key.end(), words_.begin(), words_.end());
        std::vector<std::size_t> ends;
        for (const std::size_t end : ends_) ends.push_back(end + 1);
        std::size_t done = 0;
        std::shared_ptr<const Fold> found = kept ? store.find_longest<Fold>(key, ends, done) : nullptr;
        const std::size_t known = done;
        std::shared_ptr<Fold> now;  // ours alone
        for (; done < placed_.size(); ++done) {
            const std::shared_ptr<Fold> next = now ? now : std::make_shared<Fold>();
            static const Fold nothing{};
            times(now ? *now : found ? *found : nothing, placed_[done], *next);
            now = next;
            // For the next question, which adds a law or a step of the last one.
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

  private:
    Lattice lattice(const Part& part) const { return {part.law->anchor, level_.h, plan_.tilt}; }

    static Words words_of(const Placed& p) {
        return {p.part->law->id, word(p.count), word(p.scale), static_cast<std::uint64_t>(p.first), p.cells};
    }

    std::shared_ptr<const Leaf> leaf(const Placed& p) const {
        Words key{kLaw};
        const Words where = lattice_words(), one = words_of(p);
        key.insert(key.end(), where.begin(), where.end() - 1);  // but for the levels to come
        key.insert(key.end(), one.begin(), one.end());
        key[where.size() + 1] = 0;  // and but for the count
        if (p.keep)
            if (auto found = Store::shared().find<Leaf>(key)) return found;
        Discretised d;
        discretise(*p.part->law, lattice(*p.part), p.scale, p.first, p.cells, d);
        auto made = std::make_shared<Leaf>();
        made->slack = d.slack;
        made->infinity_upper = d.infinity_upper;
        made->infinity_lower = d.infinity_lower;
        made->work = d.work;
        const auto side = [&](Weights& w) {
            Inexact law{std::move(w)};
            law.last = d.last;
            return transform(law, level_.window.further, level_.h, level_.n);
        };
        made->upper = side(d.upper);
        made->lower = side(d.lower);
        if (p.keep) Store::shared().keep<Leaf>(std::move(key), made, made->bytes());
        return made;
    }

    // `after` may be `before`.
    void times(const Fold& before, const Placed& p, Fold& after) const {
        const auto one = leaf(p);
        multiply(before.upper, one->upper, p.count, after.upper);
        multiply(before.lower, one->lower, p.count, after.lower);
        const double anchor = p.part->law->anchor, steps = p.count * remaining_;
        Tally t = before.tally;
        t.anchor += p.count * anchor;
        t.slack += steps * (one->slack + 4 * u * std::abs(anchor)) + 2 * u * remaining_ * std::abs(t.anchor);
        t.terms += 1;
        t.log_finite_upper += steps * log_without(one->infinity_upper);
        t.log_finite_lower += steps * log_without(one->infinity_lower);
        t.work += 0.5 * one->work;
        after.tally = t;
    }

    const Plan& plan_;
    const Level& level_;
    double remaining_;  // steps of the whole that one of this level stands for
    Words words_;
    std::vector<std::size_t> ends_;  // of the words of each part
    std::vector<Placed> placed_;
    bool possible_;
};

}  // namespace

double Composed::infinity(bool high) const {
    const double rel = (16 + 4 * terms) * u;
    const double log = high ? log_finite_upper : log_finite_lower;
    const double mass = -std::expm1(log);
    return high ? std::min(1.0, mass * (1 + rel)) : mass * (1 - rel);
}

double log_without(double infinity) { return infinity < 1 ? std::log1p(-infinity) : -HUGE_VAL; }

bool place(const Range& range, const Lattice& lattice, std::size_t most, std::int64_t& first, std::size_t& cells) {
    const double from = std::floor((range.left - lattice.anchor) / lattice.h - 1e-6);
    const double to = std::ceil((range.right - lattice.anchor) / lattice.h + 1e-6);
    if (!(std::abs(from) < kMostIndex && std::abs(to) < kMostIndex)) return false;
    first = static_cast<std::int64_t>(from);
    cells = static_cast<std::size_t>(std::clamp(to - from, 1.0, static_cast<double>(most)));
    return true;
}

Composed run(const std::vector<Part>& parts, const Plan& plan) {
    Composed out;
    const std::size_t last = plan.levels.size() - 1;
    const double last_norm = kernel_norm(plan.tilt, plan.levels[last].h, static_cast<double>(plan.levels[last].n));
    std::vector<LevelRun> levels;
    for (std::size_t l = 0; l <= last; ++l) {
        levels.emplace_back(parts, plan, l);
        if (!levels.back().possible()) return failed(out, plan.levels[l]);
    }
    // The key of what the levels up to one hand on: all that they were made of, and the next one's lattice.
    Words key{kLevel, word(last_norm)};
    std::vector<std::size_t> ends;
    for (std::size_t l = 0; l < last; ++l) {
        const Words next = levels[l + 1].lattice_words();
        key.push_back(levels[l].words().size());
        key.insert(key.end(), levels[l].words().begin(), levels[l].words().end());
        key.push_back(static_cast<std::uint64_t>(plan.levels[l].first));
        key.insert(key.end(), next.begin(), next.end());
        ends.push_back(key.size());
    }
    std::size_t l = 0;
    std::shared_ptr<const Coarse> before = Store::shared().find_longest<Coarse>(key, ends, l);
    for (;; ++l) {
        const Level& level = plan.levels[l];
        const auto fold = levels[l].fold();
        Product upper, lower;
        const Product *above = &fold->upper, *below = &fold->lower;
        Tally tally = fold->tally;
        if (before) {
            multiply(*above, before->upper, 4, upper);
            multiply(*below, before->lower, 4, lower);
            above = &upper, below = &lower;
            const Tally& t = before->tally;
            tally.anchor += 4 * t.anchor;
            tally.slack += t.slack + 2 * u * remaining(plan, l) * std::abs(tally.anchor);
            tally.terms += t.terms + 1;
            tally.log_finite_upper += t.log_finite_upper;
            tally.log_finite_lower += t.log_finite_lower;
            tally.work += t.work;
        }
        tally.work += static_cast<double>(level.n);
        const Outside outside_upper = outside(*above, level), outside_lower = outside(*below, level);
        Inexact high = finished(*above, outside_upper, level), low = finished(*below, outside_lower, level);
        if (l == last) {
            out.upper = std::move(high);
            out.lower = std::move(low);
            out.outside_upper = outside_upper;
            out.outside_lower = outside_lower;
            out.anchor = tally.anchor;
            out.slack = tally.slack;
            out.log_finite_upper = tally.log_finite_upper;
            out.log_finite_lower = tally.log_finite_lower;
            out.terms = tally.terms;
            out.work = tally.work;
            out.h = level.h;
            return out;
        }
        const Level& next = plan.levels[l + 1];
        const Lattice lattice{tally.anchor, next.h, plan.tilt};
        // What is unknown of the errors moves with the weights: split among neighbours, by at most e^{tilt h}.
        const double lean = std::exp(plan.tilt * next.h);
        const auto coarse = [&](Inexact& fine, const Outside& beyond, bool upward) {
            trim(fine);
            fine.error1 += outside_mass(beyond, fine, level);
            // Each coarsening may multiply a 2-norm by sqrt 2: before many, the 1-norm is the better measure.
            const double one = std::sqrt(fine.span) * std::exp(log_kernel(plan.tilt));
            if (one < std::exp2(0.5 * static_cast<double>(last - l)) * last_norm) {
                fine.error1 += std::sqrt(fine.span) * fine.error2 * (1 + 4 * u);
                fine.error2 = 0;
            }
            const Inexact law{coarsen(fine.w, lattice, upward), fine.error1 * lean, fine.error2 * lean * std::sqrt(2.0),
                              fine.log_error, std::ceil(0.5 * fine.last), 0.5 * fine.span + 2};
            return transform(law, next.window.further, next.h, next.n);
        };
        auto made = std::make_shared<Coarse>();
        made->upper = coarse(high, outside_upper, true);
        made->lower = coarse(low, outside_lower, false);
        made->tally = tally;
        Store::shared().keep<Coarse>(beginning(key, ends[l]), made, made->bytes());
        before = made;
    }
}

}  // namespace tightdp::grid
