// Carries out one level of a plan. LevelSteps puts the distributions of a composition on the level's lattice of losses.
// It multiplies their spectra, the Fourier transforms of the weights on the lattice, unless the product is in the store
// of earlier results (docs/theory/grid.md, sections 5.2 and 8).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "grid_plan.hpp"
#include "grid_spectra.hpp"
#include "level_composition.hpp"
#include "result_store.hpp"

namespace tightdp::grid {

// The two sides of a cached result, and the units of work (runtime/work_budget.hpp) that the result took.
template <class Side>
struct Kept {
    Side upper, lower;
    std::int64_t units = 0;

    std::size_t count_grid_level_bytes() const { return (upper.z.size() + lower.z.size()) * sizeof(double); }
};

// One distribution on one lattice, bounded from above and from below.
struct PartSpectra : Kept<Spectrum>, BothSides {};

// The product of the spectra of some parts at one level.
struct LevelProduct : Kept<Product> {
    StepSums sums;
};

// One part of a composition (steps with the same distribution), and its place on the lattice of a level. `count` is the
// number of the part's steps at this level. `scale` is the part's entry of Plan::scales.
struct Placed {
    const Part* part;
    double count, scale;
    std::int64_t first;  // index of the first lattice point
    std::size_t cells;
    bool keep;  // whether the store keeps the part's spectra
};

// Returns how many steps of the composition one step of a level represents: 4 to the power of the number of later
// levels.
double count_grid_steps_per_level_step(const Plan& plan, std::size_t level);

// Returns the first `length` words of a key.
Key cut_grid_level_key(const Key& key, std::size_t length);

// The single steps that one level adds to the composition (Level::steps in grid_plan.hpp). A level also composes four
// copies of the distribution of the level before, but LevelSteps does not include these copies. The store
// (result_store.hpp) keeps results under keys, which are lists of 64-bit words. The object holds the words that
// describe the steps.
class LevelSteps {
  public:
    LevelSteps(const std::vector<Part>& parts, const Plan& plan, std::size_t number);

    // Tells whether all lattice indices are in the range where doubles represent integers exactly.
    bool is_grid_level_possible() const { return possible_; }

    // The words that determine the product of the parts: a description of the lattice, and of each part's distribution
    // and its place on the lattice.
    const Key& grid_level_key_words() const { return words_; }
    Key list_level_grid_words() const;

    // Returns the product of all parts, multiplied from the first to the last.
    std::shared_ptr<const LevelProduct> multiply_grid_level_spectra() const;

  private:
    Lattice make_grid_of_level(const Part& part) const { return {part.losses->anchor, level_.h, grid_plan_.tilt}; }
    std::shared_ptr<const PartSpectra> transform_grid_level_part(const Placed& p) const;

    // Multiplies `before` by one part and writes the product to `after`, which may be the same object.
    void multiply_by_grid_level_part(const LevelProduct& before, const Placed& p, LevelProduct& after) const;

    const Plan& grid_plan_;
    const Level& level_;
    double remaining_;  // number of steps of the composition that one step of this level represents
    Key words_;
    std::vector<std::size_t> ends_;  // for each part, where its words end in words_
    std::vector<Placed> placed_;
    bool possible_;
};

}  // namespace tightdp::grid
