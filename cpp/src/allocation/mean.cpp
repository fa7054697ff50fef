// Computes an upper and a lower distribution that bound the distribution of the mean of t likelihood ratios, by
// doubling (docs/theory/allocation.md, sections 3 to 5). P and Q are the distributions of one step's output with and
// without the record. `floor` is the probability that may be lost at either end of a distribution.
//
// A likelihood ratio is kept as offset + v. The lattice has the points e^{ih} for integers i, and v lies in one of the
// cells between them (Sum in mean.hpp). To "spread" a value means to move its mass to a smaller and to a larger value,
// so that the total mass and the mean stay the same. Values are spread in the upper distribution. In the lower
// distribution they are merged or dropped.
#include "mean.hpp"

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
// Logarithm of the smallest mass under Q with which an atom is kept. A smaller mass may be subnormal or 0 as a double.
constexpr double kLeastLogMass = -700;
// Bounds on the first moment and on the mass that underflow may lose in plus(). Each product that is lost is below
// 1e-308. The bound on the mass is larger, because each stored mass is multiplied by e^{ih} (Sum::q).
constexpr double kUnseenMoment = 1e-290, kUnseenMass = 1e-150;
// Smallest mass under P with which an atom is kept. If every point of a lattice held a smaller mass, the sum of these
// masses would still be below kUnseenMoment.
constexpr double kFaintest = 1e-300;
// The offset lies below the first cell of the bulk of the mass, by this fraction of the distance from that cell to the
// mean.
constexpr double kMargin = 0.1;
// The offset of a step's distribution is 0 if the smallest likelihood ratio of the step exceeds this number. Between
// such a ratio and 1, doubles are too far apart for a lattice.
constexpr double kNearlyOne = 1 - 1e-8;
// The offset moves only if the move reduces its distance to the mean to at most this fraction of the distance before.
// Each move spreads mass, which widens the bounds, and a smaller move gains less than it costs.
constexpr double kWorthwhile = 0.75;

// Computes one of the two distributions: the upper or the lower one.
class Builder {
  public:
    Builder(double h, double floor, double steps, bool upper, std::size_t most)
        : h_(h), floor_(floor), steps_(steps), upper_(upper), most_(most) {}

    double work = 0;

    // Returns the distribution of the likelihood ratio of one step.
    Sum base(const grid::Law& law) {
        Sum x;
        x.count = 1;
        const Span span = span_of(law);
        x.offset = span.low - kMargin * (1 - span.low);
        const bool roomy = span.low <= kNearlyOne && law.minus_infinity <= floor_ / steps_;
        if (!(1 - x.offset <= kWorthwhile && roomy)) x.offset = 0;
        const Index first = index(span.low - x.offset), last = std::max(index(span.high - x.offset), first) + 1;
        check(last - first + 1);
        x.cover(first, last);
        x.slack = law.loss_slack;
        if (law.density) density(*law.density, x);
        for (const grid::Atom& a : law.atoms) atom(a, law.loss_slack, x);
        const double sign = upper_ ? 1 : -1;
        x.infinity += law.infinity * (1 + sign * (law.mass_rel + 2 * u));
        const double zero = law.minus_infinity * (1 + sign * (law.mass_rel + 2 * u));
        // `zero` is the Q-mass of the ratio 0. A law may leave out atoms of P whose masses are too small for a double
        // (law.cut). In this case, some of the mass `zero` has positive ratios, so the lower distribution drops `zero`.
        if (upper_) {
            (x.offset == 0 ? x.at_offset : x.at_zero) += zero;
        } else if (x.offset == 0 && !law.cut) {
            x.at_offset += zero;
        }
        x.add_rounding(32 * u);
        return settled(std::move(x));
    }

    Sum twice(const Sum& x) { return settled(plus(x, x, h_, work), &x, &x); }
    Sum sum(const Sum& x, const Sum& y) { return settled(plus(x, y, h_, work), &x, &y); }

    Atoms finish(const Sum& x) const {
        Atoms out;
        const double t = x.count;
        // An atom with almost no mass under P may have mass under Q. The upper distribution spreads such an atom
        // between 0 and infinity, and the lower distribution drops it.
        const auto put = [&](double value, double p, double q) {
            if (p / t > kFaintest) {
                out.loss.push_back(std::log(value / t));
                out.mass.push_back(p / t);
            } else if (upper_) {
                out.minus_infinity += q;
            }
        };
        if (x.offset > 0) put(x.offset, x.at_offset * x.offset, x.at_offset);
        else out.minus_infinity = x.at_offset;
        each_cell(x, [&](std::size_t i, double v) {
            const double q = mass(x, i);
            put(x.offset + v * (x.p[i] / x.q[i]), x.p[i] / kUnit + q * x.offset, q);
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

    double at(Index i) const { return std::exp(h_ * static_cast<double>(i)); }

    double mass(const Sum& x, std::size_t i) const { return x.q[i] / at(x.first + static_cast<Index>(i)) / kUnit; }

    // Calls visit(i, v) for each cell i that is not empty, where v is the cell's left end.
    template <class Visit>
    void each_cell(const Sum& x, Visit visit) const {
        for (std::size_t i = 0; i < x.q.size(); ++i)
            if (x.q[i] > 0) visit(i, at(x.first + static_cast<Index>(i)));
    }

    Index index(double v) const { return static_cast<Index>(std::floor(std::log(v) / h_)); }

    // Returns the last lattice point at or below v. index() may be off by one because of rounding.
    Index point_below(double v) const {
        const Index i = index(v);
        return at(i) > v ? i - 1 : at(i + 1) <= v ? i + 1 : i;
    }

    void check(Index cells) const {
        if (cells < 0 || static_cast<std::size_t>(cells) > most_) throw std::length_error("too many cells");
    }

    // Returns the interval of likelihood ratios outside of which the distribution may be cut off. The Q-mass left of
    // the interval is at most floor / steps, and so is the P-mass right of the interval.
    Span span_of(const grid::Law& law) const {
        const grid::Sketch& s = law.sketch();
        const double lost = floor_ / steps_;
        if (s.size == 0) return {0.5, 1.0};
        std::size_t from = 0, to = s.size - 1;
        double q = law.minus_infinity, p = 0;
        while (from < to && (q += std::exp(s.log_mass[from] - s.loss[from])) < lost) ++from;
        while (to > from && (p += s.mass[to]) < lost) --to;
        // A sketch is a list of losses with masses (pld/law.hpp). Each of its losses stands for all losses near it, so
        // the interval is extended by one loss of the sketch on either side.
        if (from > 0) --from;
        if (to + 1 < s.size) ++to;
        const double low = std::clamp(s.loss[from], -kFarthest, 0.0), high = std::clamp(s.loss[to], low, kFarthest);
        return {std::exp(low), std::exp(high) * (1 + 8 * u)};
    }

    // Adds the part of a privacy loss distribution that has a density. The masses of the cells are exact up to rounding
    // errors, and the masses beyond the ends of the lattice are upper bounds.
    void density(const grid::Density& d, Sum& x) {
        const std::size_t cells = x.q.size() - 1;
        double edges[grid::CellBlock::kCells + 1];
        grid::CellBlock block;
        const double sign = upper_ ? 1 : -1;
        for (std::size_t from = 0; from < cells; from += grid::CellBlock::kCells) {
            const std::size_t count = std::min(grid::CellBlock::kCells, cells - from);
            for (std::size_t i = 0; i <= count; ++i)
                edges[i] = std::log(x.offset + at(x.first + static_cast<Index>(from + i)));
            d.cells(edges, count, block);
            for (std::size_t i = 0; i < count; ++i) {
                const double v = at(x.first + static_cast<Index>(from + i));
                const double rel = block.rel[i] + (16 + 2 * std::abs(block.log_scale[i])) * u;
                const double root = std::exp(0.5 * block.log_scale[i]);  // its square, a mass, may underflow
                const double scale = root * kUnit * root * std::max(1 + sign * rel, 0.0);
                const double q = scale * block.s[i] * (v / (x.offset + v));
                x.add(from + i, q, q + scale * block.t[i]);
                x.slack = std::max(x.slack, 2 * block.rel[i] + 4 * block.slack + 64 * u);
            }
        }
        if (!upper_) return;  // the lower distribution drops the mass beyond the ends
        const double low = std::log(x.offset + at(x.first)), high = std::log(x.offset + at(x.last()));
        const auto bound = [](grid::LogMass m, double sign) {
            const double rel = m.rel + (4 + 2 * std::abs(m.log)) * u;
            return m.log > -HUGE_VAL ? std::exp(m.log) * std::max(1 + sign * rel, 0.0) : 0;
        };
        const grid::Density::Left left = d.left_of(low);
        const double start = x.offset + at(x.first), end = x.offset + at(x.last());
        const double front = kUnit * bound(left.p, 1) * (at(x.first) / start);
        x.add(0, front, front);
        // left_of() may return upper bounds, whose differences are no bounds. So the mass of the first point is not
        // subtracted from left.q.
        (x.offset > 0 ? x.at_zero : x.at_offset) += bound(left.q, 1);
        const grid::Density::Right right = d.right_of(high);
        const double back = kUnit * bound(right.s, 1) * (at(x.last()) / end);
        x.add(cells, back, back);
        x.infinity += bound(right.t, 1);
    }

    // Adds an atom. Its Q-mass is p e^{-loss}, where p is its P-mass. The relative error of the Q-mass includes the
    // error of the loss.
    void atom(const grid::Atom& a, double loss_slack, Sum& x) {
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
        deposit(std::exp(a.loss) - x.offset, mass, x);
    }

    // Adds a mass at the value offset + y.
    void deposit(double y, double mass, Sum& x) const {
        const double low = at(x.first), m = mass * kUnit;
        if (y >= low) {
            const Index top = x.last(), i = std::clamp(point_below(y), x.first, top);
            const bool inside = i < top || !upper_;
            x.add(static_cast<std::size_t>(i - x.first), m * at(i), m * (inside ? y : at(top)));
            if (!inside) x.infinity += mass * std::max(y - at(top), 0.0);
        } else if (!upper_) {
            // Mass left of the lattice is dropped, because it is less than `floor`. The means that centred() deposits
            // are on the lattice up to rounding errors, and are kept.
            if (y >= low * (1 - 1e-12)) x.add(0, m * low, m * y);
        } else if (y >= 0) {
            x.add(0, m * y, m * y);
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
    Sum settled(Sum x, const Sum* a = nullptr, const Sum* b = nullptr) {
        if (upper_) {
            split(x);
            if (a) zeros(*a, *b, x);
        }
        for (std::size_t i = 0; i < x.q.size(); ++i) {
            if (!(x.q[i] < kUnseenMoment)) continue;
            if (upper_) {  // spread between the offset and infinity
                x.infinity += x.p[i] / kUnit;
                x.at_offset += mass(x, i);
            }
            x.q[i] = x.p[i] = 0;
        }
        trim(x);
        return centred(std::move(x));
    }

    // Splits the mass of each cell between its two ends, so that its mass and its first moment stay the same.
    void split(Sum& x) const {
        const double width = std::expm1(h_);
        x.q.push_back(0);
        x.p.push_back(0);
        double carry = 0;
        for (std::size_t i = 0; i < x.q.size(); ++i) {
            const double right = std::clamp((x.p[i] - x.q[i]) / width, 0.0, x.q[i]);
            x.q[i] = x.p[i] = x.q[i] - right + carry;
            carry = right * (1 + width);
        }
        x.add_rounding(16 * u);
    }

    // Adds the values of the sum a + b for which one of the terms is 0.
    void zeros(const Sum& a, const Sum& b, Sum& x) const {
        x.at_zero = a.at_zero * b.at_zero;
        zero_plus(a, b, x);
        zero_plus(b, a, x);
    }

    // Adds the values of the sum a + b for which the term of `a` is 0.
    void zero_plus(const Sum& a, const Sum& b, Sum& x) const {
        if (!(a.at_zero > 0)) return;
        const double low = at(x.first);
        CompensatedSum front;
        each_cell(b, [&](std::size_t i, double v) {
            const double y = v - a.offset, moved = a.at_zero * mass(b, i);
            if (y >= 0 && y < low) {
                front += moved * kUnit * y;
                x.at_offset += moved * (1 - y / low) * (1 + 2 * u);
            } else {
                put_split(y, moved, x);
            }
        });
        x.add(0, front, front);
        put_split(-a.offset, a.at_zero * b.at_offset, x);
        x.add_rounding(16 * u);
    }

    // Adds a mass at the value offset + y and splits it between two lattice points, as deposit() followed by split()
    // would.
    void put_split(double y, double mass, Sum& x) const {
        if (!(mass > 0)) return;
        if (y < at(x.first) || y >= at(x.last())) return deposit(y, mass, x);
        const Index i = std::clamp(point_below(y), x.first, x.last() - 1);
        const double v = at(i), right = std::clamp((y - v) / (v * std::expm1(h_)), 0.0, 1.0);
        const std::size_t cell = static_cast<std::size_t>(i - x.first);
        const double low = mass * kUnit * (1 - right) * v, high = mass * kUnit * right * at(i + 1);
        x.add(cell, low, low);
        x.add(cell + 1, high, high);
    }

    // Removes cells at both ends as long as `floor` covers their mass. In the upper distribution, mass that is removed
    // on the left is spread between the offset and the first cell that is kept. Mass that is removed on the right is
    // spread between the last cell that is kept and infinity. In the lower distribution, the mass is merged with the
    // first or the last cell that is kept.
    void trim(Sum& x) const {
        const double lost = floor_ * x.count / steps_;
        std::size_t from = 0, to = x.q.size() - 1;
        double below = 0, above = 0;
        while (from < to) {
            const double w = mass(x, from);
            if (below + w > lost) break;
            below += w;
            ++from;
        }
        while (to > from) {
            const double p = x.p[to] / kUnit + mass(x, to) * x.offset;
            if (above + p > lost * x.count) break;
            above += p;
            --to;
        }
        CompensatedSum q, p;
        for (std::size_t i = 0; i < from; ++i) {
            const double away = -h_ * static_cast<double>(from - i);
            q += upper_ ? x.q[i] : x.q[i] * std::exp(-away);
            p += x.p[i];
            if (upper_) x.at_offset += mass(x, i) * -std::expm1(away);
        }
        x.add(from, q, p);
        q = p = 0;
        for (std::size_t i = to + 1; i < x.q.size(); ++i) {
            const double away = -h_ * static_cast<double>(i - to), lowered = x.q[i] * std::exp(away);
            q += lowered;
            p += upper_ ? lowered : x.p[i];
            if (upper_) x.infinity += x.q[i] / kUnit * -std::expm1(away);
        }
        x.add(to, q, p);
        x.q.resize(to + 1);
        x.p.resize(to + 1);
        x.q.erase(x.q.begin(), x.q.begin() + static_cast<std::ptrdiff_t>(from));
        x.p.erase(x.p.begin(), x.p.begin() + static_cast<std::ptrdiff_t>(from));
        x.first += static_cast<Index>(from);
        check(static_cast<Index>(x.q.size()));
        x.add_rounding(32 * u);
    }

    // Moves the offset up to just below the bulk of the mass, because the lattice is finest just above the offset.
    Sum centred(Sum x) {
        double total = 0, moment = 0;
        for (std::size_t i = 0; i < x.q.size(); ++i) {
            total += mass(x, i);
            moment += x.p[i] / kUnit;
        }
        if (!(total > 0)) return x;
        const double low = at(x.first), centre = moment / total;
        const double move = low - kMargin * (centre - low);
        if (x.at_offset > floor_ || !(centre - move <= kWorthwhile * centre)) return x;
        Sum y;
        y.count = x.count;
        y.offset = x.offset + move;
        y.infinity = x.infinity;
        y.rel = x.rel + 16 * u;
        y.slack = x.slack + 16 * u;
        const Index first = index(low - move), last = index(at(x.last()) * (1 + h_) - move) + 2;
        check(last - first + 1);
        y.cover(first, last);
        if (upper_) {
            y.at_zero = x.at_zero;
            deposit(-move, x.at_offset, y);
            each_cell(x, [&](std::size_t i, double v) { put_split(v - move, mass(x, i), y); });
        } else {
            // Merges cells from the left until the mean of the merged cells is on the lattice.
            double w = x.at_offset, m = -move * x.at_offset;
            std::size_t from = 0, longest = 0;
            each_cell(x, [&](std::size_t i, double v) {
                const double here = mass(x, i);
                w += here;
                m += here * (v * (x.p[i] / x.q[i]) - move);
                if (m < w * at(y.first)) return;
                deposit(m / w, w, y);
                w = m = 0;
                longest = std::max(longest, i - from);
                from = i;
            });
            y.rel += static_cast<double>(longest) * u;
            y.slack += 2 * static_cast<double>(longest) * u;
        }
        trim(y);
        return y;
    }

    double h_, floor_, steps_;
    bool upper_;
    std::size_t most_;
};

// Computes the upper or lower distribution for `steps` likelihood ratios. The binary digits of `steps` are read from
// the highest to the lowest. The highest digit stands for the first ratio. At each further digit the sum is doubled,
// and one ratio is added if the digit is 1.
Atoms side(const grid::Law& law, std::uint64_t steps, double h, double floor, bool upper, std::size_t most,
           double& work) {
    Builder builder(h, floor, static_cast<double>(steps), upper, most);
    const Sum one = builder.base(law);
    Sum x = one;
    for (int bit = static_cast<int>(std::bit_width(steps)) - 1; bit-- > 0;) {
        x = builder.twice(x);
        if (steps >> bit & 1) x = builder.sum(x, one);
    }
    work += builder.work;
    return builder.finish(x);
}

}  // namespace

Mean mean_of_ratios(const grid::Law& law, std::uint64_t steps, double h, double floor, std::size_t most_cells) {
    Mean mean;
    mean.upper = side(law, steps, h, floor, true, most_cells, mean.work);
    mean.lower = side(law, steps, h, floor, false, most_cells, mean.work);
    return mean;
}

}  // namespace tightdp::allocation
