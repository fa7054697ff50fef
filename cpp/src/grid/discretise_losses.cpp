// Turns a distribution into the masses of lattice cells (docs/theory/grid.md, sections 2 and 4). Masses at losses y are
// tilted, which multiplies them by e^{tilt y}. grid_weights.hpp explains the lattice, its cells, P-mass and Q-mass.
#include <algorithm>
#include <cmath>

#include "grid_loops.simd.hpp"
#include "grid_weights.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::grid {
namespace {

// Units of work (runtime/work_budget.hpp): for the exponentials of one cell of a density, for one atom, and for the
// upper and the lower weights of one cell.
constexpr std::int64_t kDensityUnits = 15, kAtomUnits = 30, kCellUnits = 20;

// Writes the masses of a density to `cells`, tilted as described at Cells (grid_weights.hpp). Raises `slack` to the
// largest error of the cells' ends, if this error is larger.
void add_density_to_grid(const Density& density, const Lattice& lattice, double log_scale, std::int64_t first,
                         Cells& cells, double& slack, double& work) {
    alignas(64) double x[CellBlock::kCells + 8], mass[CellBlock::kCells], spread[CellBlock::kCells],
        error[CellBlock::kCells];
    CellBlock block;
    const std::size_t total = cells.mass.size();
    for (std::size_t from = 0; from < total; from += CellBlock::kCells) {
        const std::size_t count = std::min(CellBlock::kCells, total - from);
        work::spend(kDensityUnits * static_cast<std::int64_t>(count));
        for (std::size_t i = 0; i <= count; ++i) x[i] = lattice.grid_point(first + static_cast<std::int64_t>(from + i));
        density.compute_loss_cells(x, count, block);
        for (std::size_t i = 0; i <= count; ++i) x[i] -= lattice.anchor;
        const std::size_t padded = (count + 7) / 8 * 8;
        for (std::size_t i = count; i < padded; ++i)
            block.s[i] = block.t[i] = block.log_scale[i] = block.rel[i] = x[i] = 0;
        TIGHTDP_SELECT_SIMD(tilt_grid_cells)(lattice.tilt, log_scale, x, padded, block.s, block.t, block.log_scale,
                                             block.rel, mass, spread, error);
        std::copy_n(mass, count, cells.mass.data() + from);
        std::copy_n(spread, count, cells.spread.data() + from);
        std::copy_n(error, count, cells.error.data() + from);
        std::copy_n(block.bend, count, cells.bend.data() + from);
    }
    slack = larger_loss_distribution_error(slack, block.slack);
    work += block.work;
}

// Returns the mass e^{log_mass} times e^{tilt (x - anchor) - log_scale}.
double tilt_grid_mass(double log_mass, double x, const Lattice& lattice, double log_scale) {
    return std::exp(log_mass + (lattice.tilt * (x - lattice.anchor) - log_scale));
}

// Returns a bound on the relative error of tilt_grid_mass().
double tilted_grid_mass_error(double log_mass, double x, const Lattice& lattice, double log_scale) {
    return (2 * std::abs(log_mass) + 4 * std::abs(lattice.tilt * (x - lattice.anchor)) + 2 * std::abs(log_scale) + 12) *
           u;
}

// Collects the masses of a distribution in the cells of a lattice, and turns them into weights.
class GridBuilder {
  public:
    GridBuilder(const LossDistribution& losses, const Lattice& lattice, double log_scale, std::int64_t first,
                std::size_t cells)
        : losses_(losses), lattice_(lattice), log_scale_(log_scale), first_(first), cells_(cells) {
        const double ends = std::max(std::abs(grid_point(0)), std::abs(grid_point(cells)));
        // Lattice points have rounding errors, unless all of these points are doubles. An atom within snap_ of a point
        // counts as lying on this point.
        slack_ = losses.loss_slack + (are_grid_points_exact() ? 0 : 3 * u * (ends + std::abs(lattice.anchor)));
        snap_ = slack_ + 8 * u * ends;
        if (losses.density) {
            add_density_to_grid(*losses.density, lattice, log_scale, first, cells_, slack_, work_);
            add_tails_to_grid();
            const double end = (losses.density->largest_finite_loss() + slack_ - lattice.anchor) / lattice.h -
                               static_cast<double>(first);
            note_last_grid_point(std::ceil(end + 1e-6));
        }
        for (const Atom& atom : losses.atoms) discretise_atom_on_grid(atom);
    }

    void finish_grid_weights(Discretised& out) const {
        out.slack = slack_;
        out.work = work_ + static_cast<double>(cells_.mass.size());
        out.infinity_upper = std::min(1.0, (losses_.infinity * (1 + losses_.mass_rel) + beyond_) * (1 + 8 * u));
        out.last = static_cast<double>(first_) + last_point_;
        out.infinity_lower = losses_.infinity * std::max(0.0, 1 - losses_.mass_rel) * (1 - 8 * u);
        out.lower = {first_, compute_optimistic_grid_weights(cells_, lattice_, slack_), log_scale_};
        out.upper = {first_, compute_pessimistic_grid_weights(cells_, lattice_, slack_), log_scale_};
        out.upper.values.front() += before_ * (1 + 8 * u);
        out.upper.values.back() += last_ * (1 + 8 * u);
        if (!are_grid_weights_plausible(out)) out.slack = HUGE_VAL;
    }

  private:
    // Checks the result independently of how the masses were found. The upper distribution must have a P-mass of at
    // least 1 and a Q-mass of at most 1, and the lower distribution a P-mass of at most 1. The check allows for errors
    // of masses that a user gave, and for rounding errors of these sums. A failure means that the code has a mistake,
    // and the caller then claims no bound.
    bool are_grid_weights_plausible(const Discretised& out) const {
        constexpr double kSum = 1e-12, kBothSides = 1e-6;
        const double shift = lattice_.h * static_cast<double>(first_),
                     size = static_cast<double>(cells_.mass.size()) + 1;
        const auto total = [&](const Weights& w, double further) {
            return log_grid_moment(w, further, lattice_.h) + further * shift + log_scale_;
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
        const double allowed = kSum + size * u + rounding + losses_.total_rel;
        const double all = std::exp(p_mass) + out.infinity_upper;
        // Bounds on tails may have added both P-mass and Q-mass. The Q-mass is then not checked.
        const bool added = all > 1 + allowed;
        return all + std::exp(unseen) >= 1 - allowed && (added || q_mass <= kBothSides + out.slack) &&
               std::exp(total(out.lower, -tilt)) + out.infinity_lower <= 1 + allowed;
    }

    double grid_point(std::size_t i) const { return lattice_.grid_point(first_ + static_cast<std::int64_t>(i)); }

    // Tells whether every lattice point is a double: the anchor is 0, and the spacing has few significant bits.
    bool are_grid_points_exact() const {
        const double i = static_cast<double>(first_), j = i + static_cast<double>(cells_.mass.size());
        return lattice_.anchor == 0 && std::fma(i, lattice_.h, -(i * lattice_.h)) == 0 &&
               std::fma(j, lattice_.h, -(j * lattice_.h)) == 0 && is_grid_spacing_round(lattice_.h) &&
               std::max(std::abs(i), std::abs(j)) < 0x1p40;
    }

    static bool is_grid_spacing_round(double h) {
        int exponent;
        return std::fmod(std::frexp(h, &exponent) * 0x1p12, 1.0) == 0;
    }

    // Moves the density's mass left of the lattice up to the first point. Splits the mass right of the lattice between
    // the last point and infinity, as the mass of a cell is split between its ends.
    void add_tails_to_grid() {
        const auto up = [](const LogMass& m) { return LogMass{m.log + std::log1p(m.rel), 0}; };
        const double left = grid_point(0), right = grid_point(cells_.mass.size());
        const LogMass before = up(losses_.density->measure_losses_below(left).p);
        before_ += tilt_grid_mass(before.log, left, lattice_, log_scale_) *
                   (1 + tilted_grid_mass_error(finite_grid_log(before.log), left, lattice_, log_scale_));
        const Density::Right after = losses_.density->measure_losses_above(right);
        const LogMass stays = up(after.s), leaves = up(after.t);
        last_ += tilt_grid_mass(stays.log, right, lattice_, log_scale_) *
                 (1 + tilted_grid_mass_error(finite_grid_log(stays.log), right, lattice_, log_scale_));
        beyond_ += std::exp(leaves.log) * (1 + (8 + 2 * std::abs(finite_grid_log(leaves.log))) * u) +
                   std::exp(stays.log) * 4 * slack_;
    }

    // Notes that the upper distribution may have mass at this point, even if the point's weight underflows to zero.
    void note_last_grid_point(double point) {
        last_point_ = std::max(last_point_, std::min(point, static_cast<double>(cells_.mass.size())));
    }

    static double finite_grid_log(double x) { return std::isfinite(x) ? x : 0; }

    // Adds an atom to a lattice point if the atom lies on the point up to rounding errors. Otherwise adds the atom to
    // the cell that contains it, or to the mass outside of the lattice.
    void discretise_atom_on_grid(const Atom& atom) {
        const auto last = static_cast<double>(cells_.mass.size());
        const double y = atom.loss, r = (y - lattice_.anchor) / lattice_.h - static_cast<double>(first_);
        const double nearest = std::round(r);
        const auto error_at = [&](double at) {
            return atom.rel + tilted_grid_mass_error(atom.log_mass, at, lattice_, log_scale_);
        };
        if (nearest >= 0 && nearest <= last) {
            const auto i = static_cast<std::size_t>(nearest);
            const double at = grid_point(i);
            if (std::abs(y - at) <= snap_) {
                slack_ = larger_loss_distribution_error(slack_, std::abs(y - at) + losses_.loss_slack + 4 * u * std::abs(y));
                note_last_grid_point(nearest);
                cells_.point[i] += tilt_grid_mass(atom.log_mass, at, lattice_, log_scale_);
                cells_.point_error[i] = larger_loss_distribution_error(cells_.point_error[i], error_at(at)) + 2 * u;
                return;
            }
        }
        if (r < 0) {
            before_ +=
                tilt_grid_mass(atom.log_mass, grid_point(0), lattice_, log_scale_) * (1 + error_at(grid_point(0)));
        } else if (r >= last) {
            note_last_grid_point(last);
            const double right = grid_point(cells_.mass.size()), share = -std::expm1(right - y);
            last_ += (1 - share) * tilt_grid_mass(atom.log_mass, right, lattice_, log_scale_) * (1 + error_at(right));
            beyond_ += (share + 4 * slack_ + 4 * u) * std::exp(atom.log_mass) *
                       (1 + atom.rel + (8 + 2 * std::abs(atom.log_mass)) * u);
        } else {
            const auto i = static_cast<std::size_t>(r);
            note_last_grid_point(static_cast<double>(i + 1));
            const double mass = tilt_grid_mass(atom.log_mass, grid_point(i), lattice_, log_scale_);
            cells_.mass[i] += mass;
            cells_.spread[i] += mass * std::min(-std::expm1(grid_point(i) - y), -std::expm1(-lattice_.h));
            cells_.error[i] = larger_loss_distribution_error(cells_.error[i], error_at(grid_point(i))) + 4 * u;
            cells_.bend[i] = HUGE_VAL;
        }
    }

    const LossDistribution& losses_;
    const Lattice& lattice_;
    double log_scale_;
    std::int64_t first_;
    Cells cells_;
    double slack_ = 0, snap_ = 0, work_ = 0;
    double before_ = 0, last_ = 0;  // upper weights that the first and the last point get from outside of the lattice
    double last_point_ = 0;
    double beyond_ = 0;  // upper mass at infinity that comes from losses right of the lattice
};

}  // namespace

void discretise_on_grid(const LossDistribution& losses, const Lattice& lattice, double log_scale, std::int64_t first,
                        std::size_t cells, Discretised& out) {
    work::spend(kAtomUnits * static_cast<std::int64_t>(losses.atoms.size()) +
                kCellUnits * static_cast<std::int64_t>(cells));
    GridBuilder(losses, lattice, log_scale, first, cells).finish_grid_weights(out);
}

Weights coarsen_grid_weights(const Weights& fine, const Lattice& coarse, bool upper) {
    work::spend(kCellUnits / 2 * static_cast<std::int64_t>(fine.values.size()));
    const std::int64_t first = fine.first >> 1;  // rounds down, also if fine.first is negative
    const auto odd = static_cast<std::size_t>(fine.first & 1);
    const std::size_t size = fine.values.size() + odd, cells = size / 2;
    Cells out(cells + 1);
    // Points with even indices stay points of the coarse lattice. Points with odd indices lie inside of its cells.
    const double half = -std::expm1(-0.5 * coarse.h), back = std::exp(-0.5 * coarse.tilt * coarse.h);
    for (std::size_t i = 0; i < fine.values.size(); ++i) {
        const std::size_t at = i + odd;
        if (at % 2 == 0) {
            out.point[at / 2] = fine.values[i];
            continue;
        }
        out.mass[at / 2] = fine.values[i] * back;
        out.spread[at / 2] = fine.values[i] * back * half;
        out.error[at / 2] = 8 * u;
        out.bend[at / 2] = HUGE_VAL;
    }
    return {first,
            upper ? compute_pessimistic_grid_weights(out, coarse, 0) : compute_optimistic_grid_weights(out, coarse, 0),
            fine.log_scale};
}

}  // namespace tightdp::grid
