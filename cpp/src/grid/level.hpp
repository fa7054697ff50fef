// One level of a plan: its parts on its lattice, multiplied, where the product was not kept (docs/theory/grid.md,
// sections 5.2 and 8).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compose.hpp"
#include "plan.hpp"
#include "run.hpp"
#include "store.hpp"

namespace tightdp::grid {

// The two sides of a cached result, and the units of work that it took.
template <class Side>
struct Kept {
    Side upper, lower;
    std::int64_t units = 0;

    std::size_t bytes() const { return (upper.z.size() + lower.z.size()) * sizeof(double); }
};

// One law on one lattice, from above and from below.
struct Leaf : Kept<Spectrum>, BothSides {};

// The product of some parts of a level.
struct Fold : Kept<Product> {
    StepSums sums;
};

// One part where a level puts it.
struct Placed {
    const Part* part;
    double count, scale;
    std::int64_t first;
    std::size_t cells;
    bool keep;
};

// Number of steps of the composition for which one step of a level stands.
double remaining(const Plan& plan, std::size_t level);

// The first `length` words of a key.
Key beginning(const Key& key, std::size_t length);

// The parts of a level on its lattice, without the level before, and the same as words of a key.
class LevelRun {
  public:
    LevelRun(const std::vector<Part>& parts, const Plan& plan, std::size_t number);

    // False if indices would leave the range where doubles hold them exactly.
    bool possible() const { return possible_; }

    // The words that determine the product of the parts: the lattice, and for each part its distribution and its
    // place.
    const Key& words() const { return words_; }
    Key lattice_words() const;

    // The product of all parts, from left to right.
    std::shared_ptr<const Fold> fold() const;

  private:
    Lattice lattice(const Part& part) const { return {part.law->anchor, level_.h, plan_.tilt}; }
    std::shared_ptr<const Leaf> leaf(const Placed& p) const;

    // `after` may be `before`.
    void times(const Fold& before, const Placed& p, Fold& after) const;

    const Plan& plan_;
    const Level& level_;
    double remaining_;  // steps of the whole that one of this level stands for
    Key words_;
    std::vector<std::size_t> ends_;  // of the words of each part
    std::vector<Placed> placed_;
    bool possible_;
};

}  // namespace tightdp::grid
