// Bounds on the decay of a moment generating function, from a moved line of integration. moved_line.hpp explains the
// line, the move of a node and the sums over nodes.
#include "moved_line_tail.hpp"

#include <algorithm>

#include "contour/mgf/sampled_mgf.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Units of work (runtime/work_budget.hpp) for the loss, the weight and the move of one node.
constexpr std::int64_t kNodeUnits = 6;

}  // namespace

MovedLineTail::MovedLineTail(const Pair& pair, double c, double first_s, double log_inverse)
    : line_(moved_line(pair, c, first_s, log_inverse)) {
    const double sigma = pair.sigma, h = line_.h, margin = line_.margin;
    const double left = std::floor((quadrature_left_end(pair, c) - margin) / h) - 1;
    const double right = std::ceil(quadrature_right_end(pair, c, margin) / h) + 1;
    if (!(right - left < kMaxGuideNodes)) return;
    const std::int64_t n = (static_cast<std::int64_t>(right - left) + kNodeBlock) / kNodeBlock * kNodeBlock;
    const NodeGrid grid{pair.q, 1 / sigma, h, left, n};
    work::spend(kNodeUnits * n);
    const double farthest = std::max(-left, left + static_cast<double>(n)) * h;
    line_.slack = moved_slack(sigma, farthest);
    posterior_.resize(n);
    weights_.resize(n);
    thread_local std::vector<double> loss;
    loss.resize(n);
    TIGHTDP_SELECT_SIMD(compute_mgf_nodes)(grid, loss.data(), posterior_.data());
    Moments m;
    const double shift =
        weight_shift(grid, bound_log_mgf_without_nodes(pair, c), [&](std::int64_t i) { return line_.beta * loss[i]; });
    TIGHTDP_SELECT_SIMD(sum_mgf_moments)
    (grid, line_.beta, shift, loss.data(), posterior_.data(), weights_.data(), m);
    sum_ = m.sum;
    // The relative error of a term has three parts: the error of the node's weight (contour.md, section 5.1), the error
    // of the sum, and a few roundings of the term itself. `alpha` bounds the first part for every node, in unit
    // roundoffs.
    const double largest = std::max(std::abs(loss.front()), std::abs(loss[n - 1]));
    const double alpha = std::abs(line_.beta) * (16 * largest + 6 * (farthest + 0.5 / sigma) / sigma) +
                         2 * farthest * farthest + 2 * shift + 10;
    rounding_ = kUnitRoundoff * (alpha + static_cast<double>(n) + 50);
}

double MovedLineTail::log_decay(double s) const {
    if (!(rounding_ < 0.01)) return 0;
    const std::int64_t n = static_cast<std::int64_t>(weights_.size());
    double most = 0;
    for (const double boost : {1.0, 2.0, line_.stiffness}) {
        work::spend(kNodeUnits * n);
        MovedSums sums;
        TIGHTDP_SELECT_SIMD(sum_over_moved_line)
        (line_, s, choose_line_move(line_, s, boost), posterior_.data(), weights_.data(), n, sums);
        most = std::max(most, moved_decay(line_, sums, sum_, rounding_));
    }
    return most;
}

}  // namespace tightdp::contour
