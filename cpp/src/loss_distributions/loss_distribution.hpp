// Privacy loss distributions as the grid engine represents them. A distribution consists of a density, of atoms, and of
// a mass at infinity. The density is given by the masses of cells. An atom is a single loss with positive mass.
//
// A privacy loss distribution is the distribution of the privacy loss Y = log dP/dQ under P. Here P and Q are the
// distributions of a mechanism's output on two data sets that differ by one record. The P-mass of a set of outputs is
// its mass under P, and the Q-mass its mass under Q. One pair (P, Q) dominates another pair if its privacy profile,
// delta as a function of epsilon, is nowhere smaller. The distribution determines Q: dQ = e^{-Y} dP, plus a mass
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

inline constexpr double u = kUnitRoundoff, kInfinity = HUGE_VAL;  // u = 2^-53 bounds the relative error of one rounding

// Returns the larger of two errors. A NaN counts as larger than any number.
inline double larger_loss_distribution_error(double a, double b) {
    return a >= b || a != a ? a : b;
}

// Masses of consecutive cells of a density. Cell i is the interval [e_i, e_{i+1}) of losses y, and the e_i are called
// edges. The masses of cell i are multiplied by e^{-log_scale[i]}:
//     s_i = integral e^{e_i - y} dP (the Q-mass times e^{e_i}),   t_i = integral (1 - e^{e_i - y}) dP,
// so that s_i + t_i is the P-mass. s_i and t_i are integrals of positive functions and have a relative error of at most
// rel[i]. `bend[i]` bounds by how much the logarithm of the density dQ/de^y varies over the cell, and is infinite if no
// bound is known. The masses are those of cells whose edges differ from e_i by at most `slack`.
struct CellBlock {
    static constexpr std::size_t kCells = 512;
    alignas(64) double s[kCells], t[kCells], log_scale[kCells], rel[kCells], bend[kCells];
    double slack = 0;
    double work = 0;  // number of evaluations for cells that took more than one evaluation

    struct Cell {
        double s = 0, t = 0, log_scale = 0, rel = 0, bend = 0;
    };
    Cell operator[](std::size_t i) const { return {s[i], t[i], log_scale[i], rel[i], bend[i]}; }
    void put_loss_cell(std::size_t i, const Cell& cell) {
        s[i] = cell.s, t[i] = cell.t;
        log_scale[i] = cell.log_scale, rel[i] = cell.rel, bend[i] = cell.bend;
    }

    // Takes over the slack of `made_of` if it is the larger one, and adds the work of `made_of`. The cells of this
    // block were computed from the cells of `made_of`.
    void add_loss_cell_errors(const CellBlock& made_of) {
        slack = larger_loss_distribution_error(slack, made_of.slack);
        work += made_of.work;
    }
};

// The logarithm of a mass, and the relative error of the mass itself.
struct LogMass {
    double log, rel;
};

// The part of a distribution that has a density.
class Density {
  public:
    using Cell = CellBlock::Cell;

    virtual ~Density() = default;

    // Computes the masses of `count` cells. Preconditions: the edges are finite with edges[0] < ... < edges[count], and
    // count <= CellBlock::kCells.
    virtual void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const = 0;

    // The P-mass and the Q-mass of (-inf, y), or upper bounds on these masses. Upper bounds have a relative error of 1.
    struct Left {
        LogMass p, q;
    };
    virtual Left measure_losses_below(double y) const = 0;

    // Integrals over the losses Y in [y, inf): s integrates e^{y - Y} dP, and t integrates (1 - e^{y - Y}) dP. Upper
    // bounds on the integrals may stand for them, with a relative error of 1.
    struct Right {
        LogMass s, t;
    };
    virtual Right measure_losses_above(double y) const = 0;

    // Returns the largest loss, rounded up, or infinity if losses are unbounded.
    virtual double largest_finite_loss() const = 0;

    // Returns the edges of cells that are fine enough to estimate cumulants ln E[e^{tY}]. The mass outside of all cells
    // is below e^-700.
    virtual std::vector<double> list_loss_sketch_edges() const = 0;
};

// Sorts edges and removes duplicates.
std::vector<double> sort_loss_cell_edges(std::vector<double> edges);

struct Atom {
    double loss;      // differs from the true loss by at most LossDistribution::loss_slack
    double log_mass;  // logarithm of the P-mass
    double rel;       // relative error of the mass
};

// Lumps of mass at ascending losses, from which cumulants are estimated. Lumps without mass fill the arrays up to a
// multiple of 8.
struct Sketch {
    std::vector<double> loss, mass, log_mass;
    std::vector<double> above;  // mass of this lump and of all lumps right of it
    std::size_t size = 0;       // number of lumps with mass
};

// A privacy loss distribution.
struct LossDistribution {
    LossDistribution() = default;
    LossDistribution(const LossDistribution&) = delete;
    LossDistribution& operator=(const LossDistribution&) = delete;
    ~LossDistribution() { delete sketch_.load(); }

    const std::uint64_t id = take_distribution_id();  // a number that no other distribution of this process ever has
    std::shared_ptr<const Density> density;
    std::vector<Atom> atoms;    // with ascending losses
    double infinity = 0;        // P-mass where Q vanishes
    double minus_infinity = 0;  // Q-mass where P vanishes
    double mass_rel = 0;        // relative error of these two masses
    double total_rel = 0;       // largest |1 - sum| for the sum of masses that a user gave
    double loss_slack = 0;
    bool cut = false;  // whether larger losses were left out because their mass is too small for a double
    double anchor =
        0;  // a loss that should be a point of the lattice on which losses are composed (grid/grid_weights.hpp)
    double step = 0;  // if positive, anchor + step, anchor + 2 step, ... should be lattice points too

    // Returns the sketch, which is made at the first call. Threads that call at the same time may each make a sketch,
    // and all use the one that was stored first. No thread waits for another, because a forked child could wait for
    // ever for a thread that only its parent has.
    const Sketch& get_loss_sketch() const;

    // Returns an upper bound on the finite losses, except for those that were left out (`cut`).
    double largest_finite_loss() const;

  private:
    static std::uint64_t take_distribution_id();

    mutable std::atomic<const Sketch*> sketch_{nullptr};
};

using LossDistributionPtr = std::shared_ptr<const LossDistribution>;

// A part of a composition: `count` steps with the same distribution. The count is an integer up to 2^53.
struct Part {
    LossDistributionPtr losses;
    double count;
};

// make_gaussian_losses() and make_laplace_losses() return the distributions of Gaussian and of Laplace noise. The
// sensitivity is `mu` times the scale of the noise (grid.md, sections 6.3 and 6.4).
LossDistributionPtr make_gaussian_losses(double mu);
LossDistributionPtr make_laplace_losses(double mu);

// Returns the distribution of the pair P = (1-q) N(0) + q N(1) and Q = (1-q) N(0) + q N(-1) for q in (0, 1). N(a) is
// the normal distribution with the mean a and the standard deviation 1/mu (replace.md, section 5).
LossDistributionPtr make_replaced_gaussian_losses(double mu, double q);

// Returns a distribution that dominates every mechanism of bounded range eta, such as the exponential mechanism
// (grid.md, section 6.4).
LossDistributionPtr make_range_losses(double eta);

// A component N(shift, 1) of a mixture, with its weights under P and under Q. If shift > 0, q = 0. If shift < 0,
// p <= q.
struct Shifted {
    double shift, p, q;
};

// make_mixture_density() and make_gaussian_mixture_losses() return the density and the distribution of the pair P = sum
// p N(shift, 1) and Q = sum q N(shift, 1) (mixtures.md, section 1). Weights have a relative error of at most `rel`. The
// weights of P add up to 1 - lost_p, and P has the mass lost_p where Q vanishes. The same holds for Q and lost_q. If p
// > 0 for some shift < 0, the edges of cells must be losses >= 0.
std::shared_ptr<const Density> make_mixture_density(const std::vector<Shifted>& components, double lost_p,
                                                    double lost_q, double rel);
LossDistributionPtr make_gaussian_mixture_losses(const std::vector<Shifted>& components, double lost_p, double lost_q,
                                                 double rel);

// A distribution that dominates a mechanism, and a distribution that the mechanism dominates. If the mechanism's own
// distribution is known, it is used for both.
struct LossDistributionPair {
    LossDistributionPtr upper, lower;
};

// A shift, which is a distance from 0, and its probability.
struct Weight {
    double shift, probability;
};

// bound_gaussian_mixture_losses() returns the distributions for sums with Gaussian noise of standard deviation `sigma`
// (mixtures.md, section 1). Under P the noise is shifted to the right by one of the shifts `ahead`, and under Q to the
// left by one of the shifts `behind`. Shifts are >= 0 and ascending. Their probabilities have a relative error of at
// most `rel`, and add up to 1 - lost for `ahead` and for `behind`. P has the mass `lost` where Q vanishes, and Q has
// this mass where P vanishes. The largest shift / sigma lies between kLeastShift and kMostShift.
inline constexpr double kLeastShift = 1e-9, kMostShift = 1e6;
LossDistributionPair bound_gaussian_mixture_losses(const std::vector<Weight>& ahead, const std::vector<Weight>& behind,
                                                   double sigma, double lost, double rel);

// The total_rel of user-defined losses. The probabilities of such losses add up to 1 within 1e-9 under P and under Q,
// and kUserTotal leaves a margin beyond this.
inline constexpr double kUserTotal = 1e-8;

// Returns a distribution of atoms. The caller checks that losses are finite and masses positive. The caller also checks
// that the masses of all atoms and `infinity` add up to 1 within total_rel.
LossDistributionPtr make_atomic_losses(std::vector<Atom> atoms, double infinity, double minus_infinity, double mass_rel,
                                       double loss_slack, double anchor, double step, double total_rel = 0,
                                       bool cut = false);

// Returns the distribution that dominates all (epsilon, delta)-DP mechanisms. One of these mechanisms has this
// distribution: it reveals everything with probability delta, and otherwise answers by binary randomised response with
// a privacy loss of +-epsilon.
LossDistributionPtr make_approximate_dp_losses(double epsilon, double delta);

// Returns the distributions of replacing a record under the class of all (epsilon, delta)-DP mechanisms, on a Poisson
// sample if q < 1 (replace.md, section 1). The distributions are exact unless delta (2 + e^epsilon) is near or above 1.
// Precondition: epsilon or delta is positive.
LossDistributionPair make_replaced_approximate_dp_losses(double epsilon, double delta, double q);

// The next two functions return the distribution of replacing a record of a Poisson sample with integer noise
// (replace.md, section 8). A sensitivity is at most 2^50. For the discrete Gaussian it is also at most 1e100 sigma.
// There are at most three times as many atoms as without sampling.
LossDistributionPtr make_replaced_discrete_gaussian_losses(double sigma, double sensitivity, double q);
LossDistributionPtr make_replaced_discrete_laplace_losses(double scale, double sensitivity, double q);

// Returns a distribution for replacing a record of a Poisson sample with Laplace noise. It is dominated by the
// mechanism's own distribution. The sensitivity is `mu` times the scale of the noise (replace.md, section 8).
LossDistributionPtr make_replaced_laplace_member_losses(double mu, double q);

// Returns the distribution of randomised response. With probability p in (0, 1) the answer is one of `buckets` answers,
// chosen uniformly, and otherwise the true one. `buckets` is an integer of at least 2.
LossDistributionPtr make_randomized_response_losses(double p, double buckets);

// make_discrete_gaussian_losses() and make_discrete_laplace_losses() return distributions for a count that a record
// changes by `sensitivity`, an integer. The probabilities of the noise n are proportional to exp(-n^2 / 2 sigma^2) or
// to exp(-|n| / scale). Each loss is an atom. Losses must not overflow, so scale and sigma^2 are at least kLeastScale.
// There are at most kMostAtoms atoms, which take 100 MB and half a second. Their number is about 2 kKeptDeviations
// sigma for the discrete Gaussian, and the sensitivity for discrete Laplace noise.
inline constexpr double kLeastScale = 1e-201, kMostAtoms = 1 << 21;
// Distance from the mean, in units of sigma, up to which a discrete Gaussian is kept. The mass beyond is below e^-1000.
inline constexpr double kKeptDeviations = 45;
LossDistributionPtr make_discrete_gaussian_losses(double sigma, double sensitivity);
LossDistributionPtr make_discrete_laplace_losses(double scale, double sensitivity);

// Returns the distribution of a mechanism with the pair (P, Q) on a Poisson sample with the sampling probability q in
// (0, 1). The pair is ((1-q) Q + q P, Q) for removing a record, and (P, (1-q) P + q Q) for adding one (grid.md, section
// 6.1).
LossDistributionPtr make_poisson_sampled_losses(const LossDistributionPtr& base, double q, bool add);

// Returns the distribution of replacing one record in a sample of fixed size, which holds each record with probability
// q in (0, 1). `base` is the distribution of the mechanism without sampling, under "replace", and its pair must be
// symmetric (grid.md, section 6.2).
LossDistributionPtr make_replace_one_losses(const LossDistributionPtr& base, double q);

// Returns the distribution of replacing a record by one that contributes nothing, with Gaussian noise of standard
// deviation 1/mu. The sample has a fixed size and holds each record with probability q in (0, 1). `add` exchanges the
// two records (mixtures.md, section 4).
LossDistributionPtr make_zeroed_out_losses(double mu, double q, bool add);

// Returns a distribution that is dominated by make_zeroed_out_losses(). Data sets attain this distribution if every
// other record contributes the negative of what the replaced record contributes.
LossDistributionPtr make_zeroed_out_member_losses(double mu, double q, bool add);

// Returns the distribution of a mechanism that runs one of two mechanisms and reveals which of them it ran. It runs the
// mechanism of `one` with probability `share`, and otherwise the mechanism of `other`. `share` and `rest` = 1 - share
// have a relative error of at most `rel`.
LossDistributionPtr join_labelled_losses(const LossDistributionPtr& one, double share, double rest,
                                         const LossDistributionPtr& other, double rel);

// Returns the distribution of the reversed pair (Q, P). `base` must not have a density.
LossDistributionPtr make_reversed_losses(const LossDistributionPtr& base);

}  // namespace tightdp::grid
