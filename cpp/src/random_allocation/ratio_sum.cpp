// Computes the distribution of the sum of two independent values, cell by cell. The points of the lattice are e^{i h},
// and cell i lies between e^{i h} and e^{(i+1) h} (docs/theory/allocation.md, section 4).
//
// The sum of a point of cell I and a point of cell I - k, where k >= 0, goes to cell I + o. The number o satisfies
// e^{o h} <= 1 + e^{-k h} < e^{(o+1) h}. So o depends on k alone, and the k that belong to the same o are consecutive.
// Therefore the mass of each cell of the result is a sum over o. Each term is the mass of a cell I times the mass of a
// window. The window consists of the cells I - k for all k with this o. Sums of 1, 2, 4, ... consecutive cells are
// tabulated, and the sum of a window is composed of these sums. No digits cancel, because nothing is subtracted.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ratio_mean.hpp"
#include "ratio_sum.simd.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::allocation {
namespace {

using Index = std::int64_t;
using grid::u;
constexpr Index kNoLimit = std::numeric_limits<Index>::max() / 4;
// Number of cells of the result that are computed at a time. Four arrays of this length fit into the first-level cache.
constexpr Index kBlock = 512;
// Number of runs (Run) whose terms are added up before their sum is added to the result. Rounding errors grow with
// kChunk plus the number of these sums.
constexpr int kChunk = 32;
constexpr int kMostPieces = 32;  // largest number of tabulated sums that make up a window

// The interval [from, to] of all k with the same o.
struct Run {
    Index o, from, to;
};

// Returns the runs for least <= k <= most, in the order of descending o.
std::vector<Run> list_ratio_runs(double h, Index least, Index most) {
    std::vector<Run> found;
    Index from = 0;
    for (Index o = static_cast<Index>(std::log(2.0) / h); o >= 0; --o) {
        // The condition for k is 1 + e^{-kh} >= e^{oh}. If rounding errors decide whether this condition holds for a
        // k, either of o and o - 1 is valid (allocation.md, section 4).
        const Index to = o == 0 ? kNoLimit : static_cast<Index>(std::floor(-std::log(std::expm1(o * h)) / h));
        const Run run{o, std::max(from, least), std::min(to, most)};
        if (run.from <= run.to) found.push_back(run);
        from = std::max(from, to + 1);
    }
    return found;
}

// The sums of 2^b consecutive entries of an array, for all b up to `levels`. The array is padded with zeros on both
// sides.
class Blocks {
  public:
    Blocks(const std::vector<double>& x, Index pad, int levels) {
        table_.resize(levels + 1);
        table_[0].assign(x.size() + 2 * pad, 0);
        std::copy(x.begin(), x.end(), table_[0].begin() + pad);
        for (int b = 1; b <= levels; ++b) {
            const auto& half = table_[b - 1];
            const Index step = Index{1} << (b - 1), size = static_cast<Index>(half.size());
            table_[b] = half;
            for (Index i = 0; i + step < size; ++i) table_[b][i] += half[i + step];
        }
    }

    // Fills `pieces` with pointers p into the table, and returns the number of pointers. The sum of p[i] over all
    // pointers is the sum of the entries i + at, ..., i + at + length - 1 of the padded array.
    int list_ratio_window_blocks(Index at, Index length, const double** pieces) const {
        int count = 0;
        for (int b = static_cast<int>(table_.size()) - 1; b >= 0; --b)
            for (; length >> b; length -= Index{1} << b, at += Index{1} << b) pieces[count++] = table_[b].data() + at;
        return count;
    }

  private:
    std::vector<std::vector<double>> table_;
};

std::vector<double> list_ratio_masses(const RatioSum& x, double h) {
    std::vector<double> w(x.q.size());
    for (std::size_t i = 0; i < w.size(); ++i)
        w[i] = x.q[i] * std::exp(-h * static_cast<double>(x.first + static_cast<Index>(i))) / kUnit;
    return w;
}

std::vector<double> compute_ratio_partial_sums(const std::vector<double>& x) {
    std::vector<double> out(x.size());
    CompensatedSum sum;
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = sum += x[i];
    return out;
}

// Adds to `out` the sums of all pairs of a cell I of `big` and a cell I - k of `small` with least <= k <= most, with
// masses multiplied by `factor`.
void add_ratio_pairs(const RatioSum& big, const RatioSum& small, double h, Index least, Index most, double factor,
                     RatioSum& out, double& work) {
    const std::vector<double> w = list_ratio_masses(small, h);
    std::vector<double> q = big.q, p = big.p, v = list_ratio_masses(big, h);
    for (auto* x : {&q, &p, &v})
        for (double& one : *x) one *= factor;
    std::vector<Run> list = list_ratio_runs(h, least, most);
    // If the run with o = 0 has no upper end, its window has all cells that are far enough below I.
    if (!list.empty() && list.back().o == 0 && list.back().to >= big.last_ratio_cell() - small.first) {
        const Index from = list.back().from;
        list.pop_back();
        const std::vector<double> mass = compute_ratio_partial_sums(w), moment = compute_ratio_partial_sums(small.p);
        for (Index i = std::max(big.first, small.first + from); i <= big.last_ratio_cell(); ++i) {
            const Index at = i - big.first, upto = std::min(i - from, small.last_ratio_cell()) - small.first;
            out.q[i - out.first] += q[at] * mass[upto];
            out.p[i - out.first] += p[at] * mass[upto] + v[at] * moment[upto];
        }
        work += static_cast<double>(big.q.size());
    }
    if (list.empty()) return;
    Index longest = 1;
    for (const Run& r : list) longest = std::max(longest, r.to - r.from + 1);
    int levels = 0;
    while (Index{2} << levels <= longest) ++levels;
    const Blocks mass_blocks(w, longest, levels), moment_blocks(small.p, longest, levels);
    const Index end = out.last_ratio_cell() + 1;
    alignas(64) std::array<double, kBlock> mass, moment;
    const double *pw[kMostPieces], *pm[kMostPieces];
    for (Index start = out.first; start < end; start += kBlock) {
        const Index stop = std::min(end, start + kBlock);
        for (std::size_t r = 0; r < list.size();) {
            work::spend(kChunk * (stop - start));
            const std::size_t upto = std::min(list.size(), r + kChunk);
            mass.fill(0);
            moment.fill(0);
            bool any = false;
            for (; r < upto; ++r) {
                const Run& run = list[r];
                const Index lo = std::max({start - run.o, big.first, small.first + run.from});
                const Index hi = std::min({stop - 1 - run.o, big.last_ratio_cell(), small.last_ratio_cell() + run.to});
                if (lo > hi) continue;
                any = true;
                const Index at = lo - run.to - small.first + longest, length = run.to - run.from + 1;
                const int pieces = mass_blocks.list_ratio_window_blocks(at, length, pw);
                moment_blocks.list_ratio_window_blocks(at, length, pm);
                const Index x = lo - big.first, y = lo + run.o - start;
                TIGHTDP_SELECT_SIMD(allocation_window)(pw, pm, pieces, q.data() + x, p.data() + x, v.data() + x,
                                                       std::exp(run.o * h), static_cast<std::size_t>(hi - lo + 1),
                                                       mass.data() + y, moment.data() + y);
                work += static_cast<double>(hi - lo + 1);
            }
            if (!any) continue;
            for (Index l = start; l < stop; ++l) {
                out.q[l - out.first] += mass[l - start];
                out.p[l - out.first] += moment[l - start];
            }
        }
    }
}

double sum_ratio_entries(const std::vector<double>& x) {
    const std::vector<double> sums = compute_ratio_partial_sums(x);
    return sums.empty() ? 0 : sums.back();
}

double total_ratio_mass(const RatioSum& x, double h) {
    return sum_ratio_entries(list_ratio_masses(x, h)) + x.at_offset + x.at_zero;
}

void add_scaled_ratio_sum(const RatioSum& x, double factor, RatioSum& out) {
    if (factor == 0) return;
    const Index shift = x.first - out.first;
    for (std::size_t i = 0; i < x.q.size(); ++i) {
        out.q[i + shift] += factor * x.q[i];
        out.p[i + shift] += factor * x.p[i];
    }
}

}  // namespace

RatioSum add_ratio_sums(const RatioSum& x, const RatioSum& y, double h, double& work) {
    const bool same = &x == &y;
    const Index reach = static_cast<Index>(std::log(2.0) / h) + 2;
    RatioSum out;
    out.count = x.count + y.count;
    out.offset = x.offset + y.offset;
    out.cover_ratio_cells(std::min(x.first, y.first), std::max(x.last_ratio_cell(), y.last_ratio_cell()) + reach);
    if (same) {
        add_ratio_pairs(x, x, h, 1, kNoLimit, 2, out, work);
        add_ratio_pairs(x, x, h, 0, 0, 1, out, work);
    } else {
        add_ratio_pairs(x, y, h, 0, kNoLimit, 1, out, work);
        add_ratio_pairs(y, x, h, 1, kNoLimit, 1, out, work);
    }
    add_scaled_ratio_sum(x, y.at_offset, out);
    add_scaled_ratio_sum(y, x.at_offset, out);
    out.at_offset = x.at_offset * y.at_offset;
    out.infinity = x.infinity * total_ratio_mass(y, h) + y.infinity * total_ratio_mass(x, h);
    work += 40 * static_cast<double>(out.q.size());  // exponentials that add_ratio_sums() and its caller compute
    // The rounding error of a mass or a moment has five sources: tables of blocks of up to 2^14 cells, windows of up to
    // 15 blocks, products of rounded exponentials, sums of kChunk runs, and the sum of these sums.
    const double chunks = std::log(2.0) / h / kChunk + 1;
    const double rounding = u * (kChunk + chunks + 96);
    out.rel = x.rel + y.rel + rounding;
    out.slack = std::max(x.slack, y.slack) + 4 * rounding;
    return out;
}

}  // namespace tightdp::allocation
