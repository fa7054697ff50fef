// Turns a distribution into the masses of lattice cells (docs/theory/grid.md, sections 2 and 4). pld/law.hpp explains
// P-mass and Q-mass, and lattice.hpp the tilt.
#include <algorithm>
#include <cmath>

#include "lattice.hpp"
#include "points.simd.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

// Units of work (runtime/work_budget.hpp): for the exponentials of one cell of a density, for one atom, and for the
// upper and the lower weights of one cell.
constexpr std::int64_t kDensityUnits = 15, kAtomUnits = 30, kCellUnits = 20;

// Writes the masses of a density to `cells`, tilted as described at Cells (lattice.hpp). Raises `slack` to the largest
// error of the cells' ends, if this error is larger.
void add_density(const Density& density, const Lattice& lattice, double log_scale, std::int64_t first, Cells& cells,
                 double& slack, double& work) {
    alignas(64) double x[CellBlock::kCells + 8], mass[CellBlock::kCells], spread[CellBlock::kCells],
        error[CellBlock::kCells];
    CellBlock block;
    const std::size_t total = cells.mass.size();
    for (std::size_t from = 0; from < total; from += CellBlock::kCells) {
        const std::size_t count = std::min(CellBlock::kCells, total - from);
        work::spend(kDensityUnits * static_cast<std::int64_t>(count));
        for (std::size_t i = 0; i <= count; ++i) x[i] = lattice.at(first + static_cast<std::int64_t>(from + i));
        density.cells(x, count, block);
        for (std::size_t i = 0; i <= count; ++i) x[i] -= lattice.anchor;
        const std::size_t padded = (count + 7) / 8 * 8;
        for (std::size_t i = count; i < padded; ++i)
            block.s[i] = block.t[i] = block.log_scale[i] = block.rel[i] = x[i] = 0;
        TIGHTDP_SELECT_SIMD(grid_tilt)(lattice.tilt, log_scale, x, padded, block.s, block.t, block.log_scale,
                                       block.rel, mass, spread, error);
        std::copy_n(mass, count, cells.mass.data() + from);
        std::copy_n(spread, count, cells.spread.data() + from);
        std::copy_n(error, count, cells.error.data() + from);
        std::copy_n(block.bend, count, cells.bend.data() + from);
    }
    slack = worst(slack, block.slack);
    work += block.work;
}

// Returns the mass e^{log_mass} times e^{tilt (x - anchor) - log_scale}.
double tilted(double log_mass, double x, const Lattice& lattice, double log_scale) {
    return std::exp(log_mass + (lattice.tilt * (x - lattice.anchor) - log_scale));
}

// Returns a bound on the relative error of tilted().
double tilted_error(double log_mass, double x, const Lattice& lattice, double log_scale) {
    return (2 * std::abs(log_mass) + 4 * std::abs(lattice.tilt * (x - lattice.anchor)) +
            2 * std::abs(log_scale) + 12) *
           u;
}

// Collects the masses of a distribution in the cells of a lattice, and turns them into weights.
class Builder {
  public:
    Builder(const Law& law, const Lattice& lattice, double log_scale, std::int64_t first, std::size_t cells)
        : law_(law), lattice_(lattice), log_scale_(log_scale), first_(first), cells_(cells) {
        const double ends = std::max(std::abs(x(0)), std::abs(x(cells)));
        // Lattice points have rounding errors, unless all of these points are doubles. An atom within snap_ of a point
        // counts as lying on this point.
        slack_ = law.loss_slack + (exact() ? 0 : 3 * u * (ends + std::abs(lattice.anchor)));
        snap_ = slack_ + 8 * u * ends;
        if (law.density) {
            add_density(*law.density, lattice, log_scale, first, cells_, slack_, work_);
            add_tails();
            const double end = (law.density->top() + slack_ - lattice.anchor) / lattice.h - static_cast<double>(first);
            reaches(std::ceil(end + 1e-6));
        }
        for (const Atom& atom : law.atoms) add(atom);
    }

    void finish(Discretised& out) const {
        out.slack = slack_;
        out.work = work_ + static_cast<double>(cells_.mass.size());
        out.infinity_upper = std::min(1.0, (law_.infinity * (1 + law_.mass_rel) + beyond_) * (1 + 8 * u));
        out.last = static_cast<double>(first_) + last_point_;
        out.infinity_lower = law_.infinity * std::max(0.0, 1 - law_.mass_rel) * (1 - 8 * u);
        out.lower = {first_, optimistic(cells_, lattice_, slack_), log_scale_};
        out.upper = {first_, pessimistic(cells_, lattice_, slack_), log_scale_};
        out.upper.w.front() += before_ * (1 + 8 * u);
        out.upper.w.back() += last_ * (1 + 8 * u);
        if (!plausible(out)) out.slack = HUGE_VAL;
    }

  private:
    // Checks the result independently of how the masses were found. The upper distribution must have a P-mass of at
    // least 1 and a Q-mass of at most 1, and the lower distribution a P-mass of at most 1. The check allows for errors
    // of masses that a user gave, and for rounding errors of these sums. A failure means that the code has a mistake,
    // and the caller then claims no bound.
    bool plausible(const Discretised& out) const {
        constexpr double kSum = 1e-12, kBothSides = 1e-6;
        const double shift = lattice_.h * static_cast<double>(first_),
                     size = static_cast<double>(cells_.mass.size()) + 1;
        const auto total = [&](const Weights& w, double further) {
            return log_moment(w, further, lattice_.h) + further * shift + log_scale_;
        };
        const double tilt = lattice_.tilt;
        const double p_mass = total(out.upper, -tilt), q_mass = total(out.upper, -tilt - 1) - lattice_.anchor;
        const double unseen = std::log(size) - 690 - tilt * shift + log_scale_;  // ln of the mass that underflowed
        // Removing the tilt multiplies by exponentials, whose exponents are products of the tilt and of rounded points.
        // The next lines bound the errors of the points and of the products.
        const double farthest = std::abs(shift) + lattice_.h * size;
        const double anchor = std::abs(lattice_.anchor), places = out.slack + 4 * u * (anchor + farthest);
        const double rounding =
            64 * u * (std::abs(tilt) * farthest + std::abs(log_scale_) + anchor) + std::abs(tilt) * places;
        const double allowed = kSum + size * u + rounding + law_.total_rel;
        const double all = std::exp(p_mass) + out.infinity_upper;
        const bool added = all > 1 + allowed;  // bounds on tails may have added both P-mass and Q-mass
        return all + std::exp(unseen) >= 1 - allowed && (added || q_mass <= kBothSides + out.slack) &&
               std::exp(total(out.lower, -tilt)) + out.infinity_lower <= 1 + allowed;
    }

    double x(std::size_t i) const { return lattice_.at(first_ + static_cast<std::int64_t>(i)); }

    // Tells whether every lattice point is a double: the anchor is 0, and the spacing has few significant bits.
    bool exact() const {
        const double i = static_cast<double>(first_), j = i + static_cast<double>(cells_.mass.size());
        return lattice_.anchor == 0 && std::fma(i, lattice_.h, -(i * lattice_.h)) == 0 &&
               std::fma(j, lattice_.h, -(j * lattice_.h)) == 0 && few_bits(lattice_.h) &&
               std::max(std::abs(i), std::abs(j)) < 0x1p40;
    }

    static bool few_bits(double h) {
        int exponent;
        return std::fmod(std::frexp(h, &exponent) * 0x1p12, 1.0) == 0;
    }

    // Moves the density's mass left of the lattice up to the first point. Splits the mass right of the lattice between
    // the last point and infinity, as the mass of a cell is split between its ends.
    void add_tails() {
        const auto up = [](const LogMass& m) { return LogMass{m.log + std::log1p(m.rel), 0}; };
        const double left = x(0), right = x(cells_.mass.size());
        const LogMass before = up(law_.density->left_of(left).p);
        before_ += tilted(before.log, left, lattice_, log_scale_) *
                   (1 + tilted_error(finite(before.log), left, lattice_, log_scale_));
        const Density::Right after = law_.density->right_of(right);
        const LogMass stays = up(after.s), leaves = up(after.t);
        last_ += tilted(stays.log, right, lattice_, log_scale_) *
                 (1 + tilted_error(finite(stays.log), right, lattice_, log_scale_));
        beyond_ += std::exp(leaves.log) * (1 + (8 + 2 * std::abs(finite(leaves.log))) * u) +
                   std::exp(stays.log) * 4 * slack_;
    }

    // Notes that the upper distribution may have mass at this point, even if the point's weight underflows to zero.
    void reaches(double point) {
        last_point_ = std::max(last_point_, std::min(point, static_cast<double>(cells_.mass.size())));
    }

    static double finite(double x) { return std::isfinite(x) ? x : 0; }

    // Adds an atom to a lattice point if the atom lies on the point up to rounding errors. Otherwise adds the atom to
    // the cell that contains it, or to the mass outside of the lattice.
    void add(const Atom& atom) {
        const auto last = static_cast<double>(cells_.mass.size());
        const double y = atom.loss, r = (y - lattice_.anchor) / lattice_.h - static_cast<double>(first_);
        const double nearest = std::round(r);
        const auto error_at = [&](double at) {
            return atom.rel + tilted_error(atom.log_mass, at, lattice_, log_scale_);
        };
        if (nearest >= 0 && nearest <= last) {
            const auto i = static_cast<std::size_t>(nearest);
            const double at = x(i);
            if (std::abs(y - at) <= snap_) {
                slack_ = worst(slack_, std::abs(y - at) + law_.loss_slack + 4 * u * std::abs(y));
                reaches(nearest);
                cells_.point[i] += tilted(atom.log_mass, at, lattice_, log_scale_);
                cells_.point_error[i] = worst(cells_.point_error[i], error_at(at)) + 2 * u;
                return;
            }
        }
        if (r < 0) {
            before_ += tilted(atom.log_mass, x(0), lattice_, log_scale_) * (1 + error_at(x(0)));
        } else if (r >= last) {
            reaches(last);
            const double right = x(cells_.mass.size()), share = -std::expm1(right - y);
            last_ += (1 - share) * tilted(atom.log_mass, right, lattice_, log_scale_) * (1 + error_at(right));
            beyond_ += (share + 4 * slack_ + 4 * u) * std::exp(atom.log_mass) *
                       (1 + atom.rel + (8 + 2 * std::abs(atom.log_mass)) * u);
        } else {
            const auto i = static_cast<std::size_t>(r);
            reaches(static_cast<double>(i + 1));
            const double mass = tilted(atom.log_mass, x(i), lattice_, log_scale_);
            cells_.mass[i] += mass;
            cells_.spread[i] += mass * std::min(-std::expm1(x(i) - y), -std::expm1(-lattice_.h));
            cells_.error[i] = worst(cells_.error[i], error_at(x(i))) + 4 * u;
            cells_.bend[i] = HUGE_VAL;
        }
    }

    const Law& law_;
    const Lattice& lattice_;
    double log_scale_;
    std::int64_t first_;
    Cells cells_;
    double slack_ = 0, snap_ = 0, work_ = 0;
    double before_ = 0, last_ = 0;  // upper weights that the first and the last point get from outside of the lattice
    double last_point_ = 0;
    double beyond_ = 0;             // upper mass at infinity that comes from losses right of the lattice
};

}  // namespace

void discretise(const Law& law, const Lattice& lattice, double log_scale, std::int64_t first, std::size_t cells,
                Discretised& out) {
    work::spend(kAtomUnits * static_cast<std::int64_t>(law.atoms.size()) +
                kCellUnits * static_cast<std::int64_t>(cells));
    Builder(law, lattice, log_scale, first, cells).finish(out);
}

Weights coarsen(const Weights& fine, const Lattice& coarse, bool upper) {
    work::spend(kCellUnits / 2 * static_cast<std::int64_t>(fine.w.size()));
    const std::int64_t first = fine.first >> 1;  // rounds down, also if fine.first is negative
    const auto odd = static_cast<std::size_t>(fine.first & 1);
    const std::size_t size = fine.w.size() + odd, cells = size / 2;
    Cells out(cells + 1);
    // Points with even indices stay points of the coarse lattice. Points with odd indices lie inside of its cells.
    const double half = -std::expm1(-0.5 * coarse.h), back = std::exp(-0.5 * coarse.tilt * coarse.h);
    for (std::size_t i = 0; i < fine.w.size(); ++i) {
        const std::size_t at = i + odd;
        if (at % 2 == 0) {
            out.point[at / 2] = fine.w[i];
            continue;
        }
        out.mass[at / 2] = fine.w[i] * back;
        out.spread[at / 2] = fine.w[i] * back * half;
        out.error[at / 2] = 8 * u;
        out.bend[at / 2] = HUGE_VAL;
    }
    return {first, upper ? pessimistic(out, coarse, 0) : optimistic(out, coarse, 0), fine.log_scale};
}

}  // namespace tightdp::grid
