// Computes an upper and a lower distribution that bound the distribution of the mean of t likelihood ratios, by
// doubling (docs/theory/allocation.md, sections 3 to 5). P and Q are the distributions of one step's output with and
// without the record, and a likelihood ratio is the ratio of their densities. `floor` is the probability that may be
// lost at either end of a distribution.
//
// A likelihood ratio is kept as offset + v. The lattice has the points e^{ih} for integers i and a spacing h. v lies in
// one of the cells between these points (RatioSum in ratio_mean.hpp). The P-mass and the Q-mass of a set of outputs are
// its masses under P and under Q. To "spread" a value means to move its mass to a smaller and to a larger value, so
// that the total mass and the mean stay the same. Values are spread in the upper distribution. In the lower
// distribution they are merged or dropped.
#include "ratio_mean.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace tightdp::allocation {
namespace {

using Index = std::int64_t;
using grid::u;
// Largest magnitude of a loss that is kept.
constexpr double kFarthest = 600;
// An atom is a single loss with positive probability. It is kept only if the logarithm of its mass under Q is at least
// this number. A smaller mass may be subnormal or 0 as a double.
constexpr double kLeastLogMass = -700;
// Bounds on the first moment and on the mass that underflow may lose in add_ratio_sums(). Each product that is lost is
// below 1e-308. The bound on the mass is larger, because each stored mass is multiplied by e^{ih} (RatioSum::q).
constexpr double kUnseenMoment = 1e-290, kUnseenMass = 1e-150;
// Smallest mass under P with which an atom is kept. If every point of a lattice held a smaller mass, the sum of these
// masses would still be below kUnseenMoment.
constexpr double kFaintest = 1e-300;
// The offset is moved to a point below the lattice's first cell. The distance of this point from the cell is kMargin
// times the distance from the cell to the mean.
constexpr double kMargin = 0.1;
// The offset of a step's distribution is 0 if the smallest likelihood ratio of the step exceeds this number. Between
// such a ratio and 1, doubles are too far apart for a lattice.
constexpr double kNearlyOne = 1 - 1e-8;
// The offset moves only if the move reduces its distance to the mean to at most this fraction of the distance before.
// Each move spreads mass, which widens the bounds, and a smaller move gains less than it costs.
constexpr double kWorthwhile = 0.75;

// Computes one of the two distributions: the upper or the lower one.
class RatioSumBuilder {
  public:
    RatioSumBuilder(double h, double floor, double steps, bool upper, std::size_t most)
        : spacing_(h), floor_(floor), steps_(steps), upper_(upper), most_cells_(most) {}

    double work = 0;

    // Returns the distribution of the likelihood ratio of one step.
    RatioSum make_one_ratio(const grid::LossDistribution& losses) {
        RatioSum x;
        x.count = 1;
        const Span span = choose_ratio_span(losses);
        x.offset = span.low - kMargin * (1 - span.low);
        const bool roomy = span.low <= kNearlyOne && losses.minus_infinity <= floor_ / steps_;
        if (!(1 - x.offset <= kWorthwhile && roomy)) x.offset = 0;
        const Index first = index_of_ratio(span.low - x.offset),
                    last = std::max(index_of_ratio(span.high - x.offset), first) + 1;
        check_ratio_cell_count(last - first + 1);
        x.cover_ratio_cells(first, last);
        x.slack = losses.loss_slack;
        if (losses.density) add_density_of_ratios(*losses.density, x);
        for (const grid::Atom& a : losses.atoms) add_atom_of_ratios(a, losses.loss_slack, x);
        const double sign = upper_ ? 1 : -1;
        x.infinity += losses.infinity * (1 + sign * (losses.mass_rel + 2 * u));
        const double zero = losses.minus_infinity * (1 + sign * (losses.mass_rel + 2 * u));
        // `zero` is the Q-mass of the ratio 0. A distribution may leave out atoms of P whose masses are too small for a
        // double (losses.cut). In this case, some of the mass `zero` has positive ratios, so the lower distribution
        // drops `zero`.
        if (upper_) {
            (x.offset == 0 ? x.at_offset : x.at_zero) += zero;
        } else if (x.offset == 0 && !losses.cut) {
            x.at_offset += zero;
        }
        x.add_ratio_rounding(32 * u);
        return settle_ratio_sum(std::move(x));
    }

    RatioSum double_ratio_sum(const RatioSum& x) {
        return settle_ratio_sum(add_ratio_sums(x, x, spacing_, work), &x, &x);
    }
    RatioSum sum_two_ratios(const RatioSum& x, const RatioSum& y) {
        return settle_ratio_sum(add_ratio_sums(x, y, spacing_, work), &x, &y);
    }

    Atoms finish_ratio_mean(const RatioSum& x) const {
        Atoms out;
        const double t = x.count;
        // An atom with almost no mass under P may have mass under Q. The upper distribution spreads such an atom
        // between 0 and infinity, and the lower distribution drops it.
        const auto put_atom = [&](double value, double p, double q) {
            if (p / t > kFaintest) {
                out.loss.push_back(std::log(value / t));
                out.mass.push_back(p / t);
            } else if (upper_) {
                out.minus_infinity += q;
            }
        };
        if (x.offset > 0)
            put_atom(x.offset, x.at_offset * x.offset, x.at_offset);
        else
            out.minus_infinity = x.at_offset;
        visit_ratio_cells(x, [&](std::size_t i, double v) {
            const double q = ratio_cell_mass(x, i);
            put_atom(x.offset + v * (x.p[i] / x.q[i]), x.p[i] / kUnit + q * x.offset, q);
        });
        out.minus_infinity += x.at_zero + (upper_ ? kUnseenMass : 0);
        out.infinity = x.infinity / t + (upper_ ? kUnseenMoment : 0);
        out.loss_slack = x.slack + 16 * u;
        // x.rel is the sum of the relative errors of all factors of a mass. The relative error of the mass is at most
        // e^rel - 1.
        out.mass_rel = std::expm1(x.rel * (1 + 1e-9)) + 16 * u;
        return out;
    }

  private:
    // An interval of likelihood ratios.
    struct Span {
        double low, high;
    };

    double ratio_at_index(Index i) const { return std::exp(spacing_ * static_cast<double>(i)); }

    double ratio_cell_mass(const RatioSum& x, std::size_t i) const {
        return x.q[i] / ratio_at_index(x.first + static_cast<Index>(i)) / kUnit;
    }

    // Calls visit(i, v) for each cell i that is not empty, where v is the cell's left end.
    template <class Visit>
    void visit_ratio_cells(const RatioSum& x, Visit visit) const {
        for (std::size_t i = 0; i < x.q.size(); ++i)
            if (x.q[i] > 0) visit(i, ratio_at_index(x.first + static_cast<Index>(i)));
    }

    Index index_of_ratio(double v) const { return static_cast<Index>(std::floor(std::log(v) / spacing_)); }

    // Returns the last lattice point at or below v. index_of_ratio() may be off by one because of rounding.
    Index index_below_ratio(double v) const {
        const Index i = index_of_ratio(v);
        return ratio_at_index(i) > v ? i - 1 : ratio_at_index(i + 1) <= v ? i + 1 : i;
    }

    void check_ratio_cell_count(Index cells) const {
        if (cells < 0 || static_cast<std::size_t>(cells) > most_cells_) throw std::length_error("too many cells");
    }

    // Returns the interval of likelihood ratios outside of which the distribution may be cut off. The Q-mass left of
    // the interval is at most floor / steps, and so is the P-mass right of the interval.
    Span choose_ratio_span(const grid::LossDistribution& losses) const {
        const grid::Sketch& s = losses.get_loss_sketch();
        const double lost = floor_ / steps_;
        if (s.size == 0) return {0.5, 1.0};
        std::size_t from = 0, to = s.size - 1;
        double q = losses.minus_infinity, p = 0;
        while (from < to && (q += std::exp(s.log_mass[from] - s.loss[from])) < lost) ++from;
        while (to > from && (p += s.mass[to]) < lost) --to;
        // A sketch is a list of losses with masses (loss_distributions/loss_distribution.hpp). Each of its losses
        // stands for all losses near it, so the interval is extended by one loss of the sketch on either side.
        if (from > 0) --from;
        if (to + 1 < s.size) ++to;
        const double low = std::clamp(s.loss[from], -kFarthest, 0.0), high = std::clamp(s.loss[to], low, kFarthest);
        return {std::exp(low), std::exp(high) * (1 + 8 * u)};
    }

    // Adds the part of a privacy loss distribution that has a density. The masses of the cells are exact up to rounding
    // errors, and the masses beyond the ends of the lattice are upper bounds.
    void add_density_of_ratios(const grid::Density& d, RatioSum& x) {
        const std::size_t cells = x.q.size() - 1;
        double edges[grid::CellBlock::kCells + 1];
        grid::CellBlock block;
        const double sign = upper_ ? 1 : -1;
        for (std::size_t from = 0; from < cells; from += grid::CellBlock::kCells) {
            const std::size_t count = std::min(grid::CellBlock::kCells, cells - from);
            for (std::size_t i = 0; i <= count; ++i)
                edges[i] = std::log(x.offset + ratio_at_index(x.first + static_cast<Index>(from + i)));
            d.compute_loss_cells(edges, count, block);
            for (std::size_t i = 0; i < count; ++i) {
                const double v = ratio_at_index(x.first + static_cast<Index>(from + i));
                const double rel = block.rel[i] + (16 + 2 * std::abs(block.log_scale[i])) * u;
                const double root = std::exp(0.5 * block.log_scale[i]);  // its square, a mass, may underflow
                const double scale = root * kUnit * root * std::max(1 + sign * rel, 0.0);
                const double q = scale * block.s[i] * (v / (x.offset + v));
                x.add_to_ratio_cell(from + i, q, q + scale * block.t[i]);
                x.slack = std::max(x.slack, 2 * block.rel[i] + 4 * block.slack + 64 * u);
            }
        }
        if (!upper_) return;  // the lower distribution drops the mass beyond the ends
        const double low = std::log(x.offset + ratio_at_index(x.first)),
                     high = std::log(x.offset + ratio_at_index(x.last_ratio_cell()));
        const auto bound = [](grid::LogMass m, double sign) {
            const double rel = m.rel + (4 + 2 * std::abs(m.log)) * u;
            return m.log > -HUGE_VAL ? std::exp(m.log) * std::max(1 + sign * rel, 0.0) : 0;
        };
        const grid::Density::Left left = d.measure_losses_below(low);
        const double start = x.offset + ratio_at_index(x.first), end = x.offset + ratio_at_index(x.last_ratio_cell());
        const double front = kUnit * bound(left.p, 1) * (ratio_at_index(x.first) / start);
        x.add_to_ratio_cell(0, front, front);
        // The mass left of the lattice is split between the first point and a smaller ratio. The smaller ratio gets all
        // of left.q, although the first point has a part of it. This part is not subtracted, because
        // measure_losses_below() may return upper bounds, and a difference of upper bounds is no bound.
        (x.offset > 0 ? x.at_zero : x.at_offset) += bound(left.q, 1);
        const grid::Density::Right right = d.measure_losses_above(high);
        const double back = kUnit * bound(right.s, 1) * (ratio_at_index(x.last_ratio_cell()) / end);
        x.add_to_ratio_cell(cells, back, back);
        x.infinity += bound(right.t, 1);
    }

    // Adds an atom. The Q-mass of an atom is p e^{-loss}, where p is the atom's P-mass. The relative error of the
    // Q-mass includes the error of the loss.
    void add_atom_of_ratios(const grid::Atom& a, double loss_slack, RatioSum& x) {
        const double sign = upper_ ? 1 : -1;
        const double rel = a.rel + (16 + 2 * std::abs(a.log_mass) + 2 * std::abs(a.loss)) * u + std::expm1(loss_slack);
        const double p = std::exp(a.log_mass) * std::max(1 + sign * rel, 0.0);
        if (a.loss > kFarthest || a.log_mass - a.loss < kLeastLogMass) {  // spread between 0 and infinity, or dropped
            if (upper_) x.infinity += p;
            if (upper_) (x.offset > 0 ? x.at_zero : x.at_offset) += std::exp(-kFarthest);
            return;
        }
        const double mass = std::exp(a.log_mass - a.loss) * std::max(1 + sign * rel, 0.0);
        x.slack = std::max(x.slack, (4 + 4 * std::abs(a.loss)) * u);
        deposit_ratio_mass(std::exp(a.loss) - x.offset, mass, x);
    }

    // Adds a mass at the value offset + y.
    void deposit_ratio_mass(double y, double mass, RatioSum& x) const {
        const double low = ratio_at_index(x.first), m = mass * kUnit;
        if (y >= low) {
            const Index top = x.last_ratio_cell(), i = std::clamp(index_below_ratio(y), x.first, top);
            const bool inside = i < top || !upper_;
            x.add_to_ratio_cell(static_cast<std::size_t>(i - x.first), m * ratio_at_index(i),
                                m * (inside ? y : ratio_at_index(top)));
            if (!inside) x.infinity += mass * std::max(y - ratio_at_index(top), 0.0);
        } else if (!upper_) {
            // Mass left of the lattice is dropped, because it is less than `floor`. The means that
            // center_ratio_offset() deposits are on the lattice up to rounding errors, and are kept.
            if (y >= low * (1 - 1e-12)) x.add_to_ratio_cell(0, m * low, m * y);
        } else if (y >= 0) {
            x.add_to_ratio_cell(0, m * y, m * y);
            x.at_offset += mass * (1 - y / low) * (1 + 2 * u);
        } else {
            const double share = std::clamp((x.offset + y) / x.offset, 0.0, 1.0);
            x.at_offset += mass * share;
            x.at_zero += mass * (1 - share) * (1 + 2 * u);
        }
    }

    // Finishes the distribution x of one step, or of the sum of a and b. In the upper distribution, the mass of each
    // cell moves to the ends of the cell. Then, in either distribution, cells with very little mass are emptied, the
    // tails are cut off as far as `floor` allows, and the offset moves up to the bulk of the mass.
    RatioSum settle_ratio_sum(RatioSum x, const RatioSum* a = nullptr, const RatioSum* b = nullptr) {
        if (upper_) {
            split_ratio_cells(x);
            if (a) add_zero_ratios(*a, *b, x);
        }
        for (std::size_t i = 0; i < x.q.size(); ++i) {
            if (!(x.q[i] < kUnseenMoment)) continue;
            if (upper_) {  // spread between the offset and infinity
                x.infinity += x.p[i] / kUnit;
                x.at_offset += ratio_cell_mass(x, i);
            }
            x.q[i] = x.p[i] = 0;
        }
        trim_ratio_cells(x);
        return center_ratio_offset(std::move(x));
    }

    // Splits the mass of each cell between its two ends, so that its mass and its first moment stay the same.
    void split_ratio_cells(RatioSum& x) const {
        const double width = std::expm1(spacing_);
        x.q.push_back(0);
        x.p.push_back(0);
        double carry = 0;
        for (std::size_t i = 0; i < x.q.size(); ++i) {
            const double right = std::clamp((x.p[i] - x.q[i]) / width, 0.0, x.q[i]);
            x.q[i] = x.p[i] = x.q[i] - right + carry;
            carry = right * (1 + width);
        }
        x.add_ratio_rounding(16 * u);
    }

    // Adds the values of the sum a + b for which one of the terms is 0.
    void add_zero_ratios(const RatioSum& a, const RatioSum& b, RatioSum& x) const {
        x.at_zero = a.at_zero * b.at_zero;
        add_sums_with_zero_ratio(a, b, x);
        add_sums_with_zero_ratio(b, a, x);
    }

    // Adds the values of the sum a + b for which the term of `a` is 0.
    void add_sums_with_zero_ratio(const RatioSum& a, const RatioSum& b, RatioSum& x) const {
        if (!(a.at_zero > 0)) return;
        const double low = ratio_at_index(x.first);
        CompensatedSum front;
        visit_ratio_cells(b, [&](std::size_t i, double v) {
            const double y = v - a.offset, moved = a.at_zero * ratio_cell_mass(b, i);
            if (y >= 0 && y < low) {
                front += moved * kUnit * y;
                x.at_offset += moved * (1 - y / low) * (1 + 2 * u);
            } else {
                put_split_ratio_mass(y, moved, x);
            }
        });
        x.add_to_ratio_cell(0, front, front);
        put_split_ratio_mass(-a.offset, a.at_zero * b.at_offset, x);
        x.add_ratio_rounding(16 * u);
    }

    // Adds a mass at the value offset + y and splits it between two lattice points, as deposit_ratio_mass() followed by
    // split_ratio_cells() would.
    void put_split_ratio_mass(double y, double mass, RatioSum& x) const {
        if (!(mass > 0)) return;
        if (y < ratio_at_index(x.first) || y >= ratio_at_index(x.last_ratio_cell()))
            return deposit_ratio_mass(y, mass, x);
        const Index i = std::clamp(index_below_ratio(y), x.first, x.last_ratio_cell() - 1);
        const double v = ratio_at_index(i), right = std::clamp((y - v) / (v * std::expm1(spacing_)), 0.0, 1.0);
        const std::size_t cell = static_cast<std::size_t>(i - x.first);
        const double low = mass * kUnit * (1 - right) * v, high = mass * kUnit * right * ratio_at_index(i + 1);
        x.add_to_ratio_cell(cell, low, low);
        x.add_to_ratio_cell(cell + 1, high, high);
    }

    // Removes cells at both ends as long as `floor` covers their mass. In the upper distribution, mass that is removed
    // on the left is spread between the offset and the first cell that is kept. Mass that is removed on the right is
    // spread between the last cell that is kept and infinity. In the lower distribution, the mass is merged with the
    // first or the last cell that is kept.
    void trim_ratio_cells(RatioSum& x) const {
        const double lost = floor_ * x.count / steps_;
        std::size_t from = 0, to = x.q.size() - 1;
        double below = 0, above = 0;
        while (from < to) {
            const double w = ratio_cell_mass(x, from);
            if (below + w > lost) break;
            below += w;
            ++from;
        }
        while (to > from) {
            const double p = x.p[to] / kUnit + ratio_cell_mass(x, to) * x.offset;
            if (above + p > lost * x.count) break;
            above += p;
            --to;
        }
        CompensatedSum q, p;
        for (std::size_t i = 0; i < from; ++i) {
            const double away = -spacing_ * static_cast<double>(from - i);
            q += upper_ ? x.q[i] : x.q[i] * std::exp(-away);
            p += x.p[i];
            if (upper_) x.at_offset += ratio_cell_mass(x, i) * -std::expm1(away);
        }
        x.add_to_ratio_cell(from, q, p);
        q = p = 0;
        for (std::size_t i = to + 1; i < x.q.size(); ++i) {
            const double away = -spacing_ * static_cast<double>(i - to), lowered = x.q[i] * std::exp(away);
            q += lowered;
            p += upper_ ? lowered : x.p[i];
            if (upper_) x.infinity += x.q[i] / kUnit * -std::expm1(away);
        }
        x.add_to_ratio_cell(to, q, p);
        x.q.resize(to + 1);
        x.p.resize(to + 1);
        x.q.erase(x.q.begin(), x.q.begin() + static_cast<std::ptrdiff_t>(from));
        x.p.erase(x.p.begin(), x.p.begin() + static_cast<std::ptrdiff_t>(from));
        x.first += static_cast<Index>(from);
        check_ratio_cell_count(static_cast<Index>(x.q.size()));
        x.add_ratio_rounding(32 * u);
    }

    // Moves the offset up to just below the bulk of the mass, because the lattice is finest just above the offset.
    RatioSum center_ratio_offset(RatioSum x) {
        double total = 0, moment = 0;
        for (std::size_t i = 0; i < x.q.size(); ++i) {
            total += ratio_cell_mass(x, i);
            moment += x.p[i] / kUnit;
        }
        if (!(total > 0)) return x;
        const double low = ratio_at_index(x.first), centre = moment / total;
        const double move = low - kMargin * (centre - low);
        if (x.at_offset > floor_ || !(centre - move <= kWorthwhile * centre)) return x;
        RatioSum y;
        y.count = x.count;
        y.offset = x.offset + move;
        y.infinity = x.infinity;
        y.rel = x.rel + 16 * u;
        y.slack = x.slack + 16 * u;
        const Index first = index_of_ratio(low - move),
                    last = index_of_ratio(ratio_at_index(x.last_ratio_cell()) * (1 + spacing_) - move) + 2;
        check_ratio_cell_count(last - first + 1);
        y.cover_ratio_cells(first, last);
        if (upper_) {
            y.at_zero = x.at_zero;
            deposit_ratio_mass(-move, x.at_offset, y);
            visit_ratio_cells(
                x, [&](std::size_t i, double v) { put_split_ratio_mass(v - move, ratio_cell_mass(x, i), y); });
        } else {
            // Merges cells from the left until the mean of the merged cells is on the lattice.
            double w = x.at_offset, m = -move * x.at_offset;
            std::size_t from = 0, longest = 0;
            visit_ratio_cells(x, [&](std::size_t i, double v) {
                const double here = ratio_cell_mass(x, i);
                w += here;
                m += here * (v * (x.p[i] / x.q[i]) - move);
                if (m < w * ratio_at_index(y.first)) return;
                deposit_ratio_mass(m / w, w, y);
                w = m = 0;
                longest = std::max(longest, i - from);
                from = i;
            });
            y.rel += static_cast<double>(longest) * u;
            y.slack += 2 * static_cast<double>(longest) * u;
        }
        trim_ratio_cells(y);
        return y;
    }

    double spacing_, floor_, steps_;
    bool upper_;
    std::size_t most_cells_;
};

// Computes the upper or lower distribution for `steps` likelihood ratios. The binary digits of `steps` are read from
// the highest to the lowest. The highest digit stands for the first ratio. At each further digit the sum is doubled,
// and one ratio is added if the digit is 1.
Atoms compute_ratio_mean(const grid::LossDistribution& losses, std::uint64_t steps, double h, double floor, bool upper,
                         std::size_t most, double& work) {
    RatioSumBuilder builder(h, floor, static_cast<double>(steps), upper, most);
    const RatioSum one = builder.make_one_ratio(losses);
    RatioSum x = one;
    for (int bit = static_cast<int>(std::bit_width(steps)) - 1; bit-- > 0;) {
        x = builder.double_ratio_sum(x);
        if (steps >> bit & 1) x = builder.sum_two_ratios(x, one);
    }
    work += builder.work;
    return builder.finish_ratio_mean(x);
}

}  // namespace

Mean bound_mean_of_ratios(const grid::LossDistribution& losses, std::uint64_t steps, double h, double floor,
                          std::size_t most_cells) {
    Mean mean;
    mean.upper = compute_ratio_mean(losses, steps, h, floor, true, most_cells, mean.work);
    mean.lower = compute_ratio_mean(losses, steps, h, floor, false, most_cells, mean.work);
    return mean;
}

}  // namespace tightdp::allocation
