// One Poisson-subsampled Gaussian on the contour: its nodes, its tilted cumulants, its decay.
#pragma once

#include <vector>

#include "contour/tail_bound/tail.hpp"
#include "moments.hpp"
#include "node_sums.hpp"

namespace tightdp::contour {

// What bounds |phi(s)| from above: a minorant of the tilted law, and the total variation of its density.
struct Decay {
    std::vector<Cell> cells;
    double variation = HUGE_VAL;
    // sampled[m] bounds 1 - |phi| from below within half a spacing of m * spacing.
    std::vector<double> sampled;
    double spacing = 0;

    // Lower bound on -ln |phi(s)| for every s in [s_low, s_high]; s_high = inf is allowed.
    double log_decay(double s_low, double s_high) const;
    // Samples take most of the time: they pay where |phi| itself must be small, not |phi|^count.
    void sample();
};

// ln W(u), the posterior weights at u and -u, and the loss ln W(u) - ln W(-u) with its error in units of
// 2^-53.
struct ReplacedNodes {
    std::vector<double> ahead, bright, faint, loss, eta;
};

class Part {
  public:
    // sigma > 0, 0 < q < 1, count >= 1.
    Part(double sigma, double q, double count, Pair pair)
        : sigma_(sigma),
          q_(q),
          count_(count),
          pair_(pair),
          add_(pair.kind == Pair::add),
          replace_(pair.kind == Pair::replace) {}

    double count() const { return count_; }

    // Places nodes that serve abscissae up to c_most + is, |s| <= s_most, with relative error
    // e^{-log_inverse} each for quadrature and range. False if that takes more than most_nodes.
    bool place(double c_most, double s_most, double log_inverse, long most_nodes);

    // count * ln M and its derivatives at c <= c_most; not certified.
    Cumulants cumulants(double c);

    // count * ln M(c), certified; c <= c_most.
    CertifiedLogMgf log_mgf(double c);

    // Nodes that place() would need, or infinity where that is no number.
    double nodes_for(double c_most, double s_most, double log_inverse) const;

    // "remove" and "add": how it decays from first_s on.
    Tail tail(double c, double first_s, double log_inverse) const {
        return Tail(sigma_, q_, pair_, c, first_s, log_inverse);
    }

    // What the tilted law at c guarantees, without samples. Cells follow the mass down to the
    // resolution, relative to 1.
    void build_decay(double c, double resolution, Decay& out);

    // xi_m = M(c + i m step)/M(c) - 1, m = 1..steps, and a bound on the rounding error of each. Returns the
    // bound on the error of the trapezoid rule, common to all.
    double products(double c, double step, long steps, double* re, double* im, double* rounding);

    long nodes() const { return grid_.n; }
    // The largest |loss| on a node: the phases step * |loss| are reduced exactly below 1e5.
    double largest_loss() const;

  private:
    double beta(double c) const { return add_ ? -c : 1 + c; }
    double shift(double c) const;
    void moments(double c, Moments& out, double* weights);
    double variation(double c, double sum) const;
    void build_cells(double c, double resolution, std::vector<Cell>& cells);

    // The same for "replace": both logarithms of a node, and their sums.
    void nodes_replaced(const NodeGrid& grid, ReplacedNodes& out) const;
    void moments_replaced(const NodeGrid& grid, const ReplacedNodes& nodes, double c, Moments& out,
                          double* weights) const;
    void cells_replaced(double c, const NodeGrid& grid, double total, std::vector<Cell>& cells) const;

    double sigma_, q_, count_;
    Pair pair_;
    bool add_, replace_;
    NodeGrid grid_{};
    double margin_ = 0, s_most_ = 0;
    std::vector<double> loss_, posterior_, weights_;
    ReplacedNodes both_;
};

// More nodes than this and the grid engine is the better choice: for the final sums, and for the sums that
// guide the choice of abscissa, of which there are some thirty.
inline constexpr long kMaxNodes = 1 << 18;
inline constexpr long kMaxGuideNodes = 1 << 14;

}  // namespace tightdp::contour
