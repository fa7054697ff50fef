// Privacy-loss laws as the grid engine sees them: a density known by the exact masses of its cells, atoms, infinity.
//
// A law is the distribution of the privacy loss Y = log dP/dQ under P. Its Q side follows: dQ = e^{-Y} dP, plus a mass
// `minus_infinity` where P vanishes. Theory: docs/theory/grid.md, sections 1, 2 and 6.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tightdp/config.hpp"

namespace tightdp::grid {

inline constexpr double u = kUnitRoundoff, kInfinity = HUGE_VAL;

// The larger of two errors; what is no number is the largest.
inline double worst(double a, double b) {
    return a >= b || a != a ? a : b;
}

// Masses of consecutive cells [e_i, e_{i+1}) of a density, all times e^{-log_scale[i]}:
//     s_i = integral e^{e_i - y} dP (the Q-mass times e^{e_i}),   t_i = integral (1 - e^{e_i - y}) dP,
// so that s + t is the P-mass. Neither cancels. Both are within a factor 1 +- rel[i]; bend[i] bounds by how much the
// logarithm of the density dQ/de^y varies over the cell (infinite: unknown). The edges that were really used differ
// from e_i by at most `slack`.
struct CellBlock {
    static constexpr std::size_t kCells = 512;
    alignas(64) double s[kCells], t[kCells], log_scale[kCells], rel[kCells], bend[kCells];
    double slack = 0;
    double work = 0;  // cells that took more than one evaluation count for so many

    struct Cell {
        double s = 0, t = 0, log_scale = 0, rel = 0, bend = 0;
    };
    Cell operator[](std::size_t i) const { return {s[i], t[i], log_scale[i], rel[i], bend[i]}; }
    void put(std::size_t i, const Cell& cell) {
        s[i] = cell.s, t[i] = cell.t;
        log_scale[i] = cell.log_scale, rel[i] = cell.rel, bend[i] = cell.bend;
    }

    // Takes over what cells were made of.
    void add_errors(const CellBlock& made_of) {
        slack = worst(slack, made_of.slack);
        work += made_of.work;
    }
};

// ln of a mass, and the relative error of the mass.
struct LogMass {
    double log, rel;
};

// The part of a law that has a density.
class Density {
  public:
    using Cell = CellBlock::Cell;

    virtual ~Density() = default;

    // Precondition: edges[0] < ... < edges[count] finite, count <= CellBlock::kCells.
    virtual void cells(const double* edges, std::size_t count, CellBlock& out) const = 0;

    // P- and Q-mass of (-inf, y), or upper bounds on both with a relative error of 1.
    struct Left {
        LogMass p, q;
    };
    virtual Left left_of(double y) const = 0;

    // Integrals over [y, inf): s of e^{y - Y} dP and t of (1 - e^{y - Y}) dP, or upper bounds on both with a relative
    // error of 1.
    struct Right {
        LogMass s, t;
    };
    virtual Right right_of(double y) const = 0;

    // A loss that none exceeds, rounded up; infinite where there is none.
    virtual double top() const = 0;

    // Edges from the far left to the far right, fine enough to estimate cumulants; masses outside are below e^-700.
    virtual std::vector<double> sketch() const = 0;
};

// Sorted, each once.
std::vector<double> ascending(std::vector<double> edges);

struct Atom {
    double loss;      // within Law::loss_slack of the true one
    double log_mass;  // P-mass
    double rel;       // relative error of the mass
};

// Lumps of mass at ascending losses, for estimates. Padded with massless lumps to a multiple of 8.
struct Sketch {
    std::vector<double> loss, mass, log_mass;
    std::vector<double> above;  // mass of this lump and all to its right
    std::size_t size = 0;       // without the padding
};

struct Law {
    Law() = default;
    Law(const Law&) = delete;
    Law& operator=(const Law&) = delete;
    ~Law() { delete sketch_.load(); }

    const std::uint64_t id = next_id();  // never that of another law, living or gone
    std::shared_ptr<const Density> density;
    std::vector<Atom> atoms;  // ascending losses
    double infinity = 0;      // P-mass where Q vanishes
    double minus_infinity = 0;
    double mass_rel = 0;   // relative error of the two
    double total_rel = 0;  // how far all masses together may be from 1, where a user gave them
    double loss_slack = 0;
    bool cut = false;   // larger losses were left out, of less mass than any double
    double anchor = 0;  // a loss that belongs on the lattice, as close to it as doubles are
    double step = 0;    // if positive: so do anchor + step, anchor + 2 step, ...

    // Made when first asked for. Threads that ask at once may each make it, and keep the first one's: waiting
    // for another thread would be for ever in a forked child, which has the law and not the thread.
    const Sketch& sketch() const;

    // An upper bound on all finite losses that were not left out, rounded up.
    double top() const;

  private:
    static std::uint64_t next_id();

    mutable std::atomic<const Sketch*> sketch_{nullptr};
};

using LawPtr = std::shared_ptr<const Law>;

struct Part {
    LawPtr law;
    double count;  // an integer up to 2^53
};

LawPtr gaussian(double mu);
LawPtr laplace(double mu);

// (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1), N of deviation 1/mu (replace.md, section 5); q in (0, 1).
LawPtr gaussian_replaced(double mu, double q);
LawPtr bounded_range(double eta);

// N(shift, 1) with its weights under P and Q: q = 0 where shift > 0; where shift < 0, p <= q.
struct Shifted {
    double shift, p, q;
};

// sum p N(shift) against sum q N(shift) (mixtures.md, section 1). Weights are within a factor 1 +- rel and add up to 1
// less `lost`, which is where the other side has nothing. Where p > 0 for some shift < 0, losses >= 0 alone may be
// asked for.
std::shared_ptr<const Density> mixture(const std::vector<Shifted>& components, double lost_p, double lost_q,
                                       double rel);
LawPtr gaussian_mixture(const std::vector<Shifted>& components, double lost_p, double lost_q, double rel);

// A distribution that dominates a mechanism, and one that it dominates; the same object where it is the mechanism's
// own.
struct LawPair {
    LawPtr upper, lower;
};

// A distance from 0 and its probability.
struct Weight {
    double shift, probability;
};

// Gaussian noise of deviation `sigma` on sums: probabilities of shifts >= 0, ascending, to the right of 0 under P and
// to the left under Q (mixtures.md, section 1). Probabilities are within a factor 1 +- rel, and those of either side
// add up to 1 less `lost`, which is where the other has nothing. The largest shift / sigma lies between kLeastShift and
// kMostShift.
inline constexpr double kLeastShift = 1e-9, kMostShift = 1e6;
LawPair gaussian_mixtures(const std::vector<Weight>& ahead, const std::vector<Weight>& behind, double sigma,
                          double lost, double rel);

// Probabilities of user-defined losses add up to 1 within 1e-9, and so do Q's.
inline constexpr double kUserTotal = 1e-8;

// Checked by the caller: losses finite, masses positive, sum of masses + infinity = 1 up to total_rel.
LawPtr atoms(std::vector<Atom> atoms, double infinity, double minus_infinity, double mass_rel, double loss_slack,
             double anchor, double step, double total_rel = 0, bool cut = false);

// Binary randomised response at epsilon, or with probability delta no privacy at all.
LawPtr approximate_dp(double epsilon, double delta);

// Randomised response: with probability p in (0, 1) one of `buckets` answers at random, otherwise the true one.
// `buckets` is an integer of at least 2.
LawPtr randomized_response(double p, double buckets);

// Integer noise, P(n) ~ exp(-n^2 / 2 sigma^2) or exp(-|n| / scale), on a count that moves by `sensitivity`, an integer.
// Losses are looked at one by one: they must be doubles (scale and sigma^2 at least kLeastScale), and few enough for
// memory (2 kKeptDeviations sigma, or the sensitivity of discrete Laplace noise, at most kMostAtoms: 100 MB, half a
// second).
inline constexpr double kLeastScale = 1e-201, kMostAtoms = 1 << 21;
// The part of a discrete Gaussian that is kept, in sigma: beyond lies less than e^-1000.
inline constexpr double kKeptDeviations = 45;
LawPtr discrete_gaussian(double sigma, double sensitivity);
LawPtr discrete_laplace(double scale, double sensitivity);

// (1-q) Q + q P against Q ("remove") or P against (1-q) P + q Q ("add"), grid.md section 6.1; q in (0, 1).
LawPtr poisson(const LawPtr& base, double q, bool add);

// Symmetric base law: the curve of one record replaced in a sample of fixed size, grid.md section 6.2; q in (0, 1).
LawPtr replace_one(const LawPtr& base, double q);

// A record against nothing in its place, of a sample of fixed size with Gaussian noise of deviation 1/mu, or ("add")
// the other way round (mixtures.md, section 4); q in (0, 1).
LawPtr zeroed_out(double mu, double q, bool add);

// A law below it that two data sets attain: the others contribute the opposite of the record.
LawPtr zeroed_out_member(double mu, double q, bool add);

// Returns the law of a run that draws from `one` with probability `share`, from `other` otherwise, and reveals which.
// `share` and `rest` = 1 - share are known up to a factor 1 +- rel.
LawPtr labelled(const LawPtr& one, double share, double rest, const LawPtr& other, double rel);

// The law of (Q, P), of a law without a density.
LawPtr reversed(const LawPtr& base);

}  // namespace tightdp::grid
