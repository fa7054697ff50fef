// The hockey-stick divergence of a discrete privacy loss on a circular grid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/dispatch.hpp"

namespace tightdp {

// sum = sum_j p[j], weighted = sum_j p[j] decay[j]; count a multiple of eight.
TIGHTDP_DECLARE_SIMD(void, prv_block_sums,
                     (const double* p, const double* decay, std::int64_t count, double& sum, double& weighted))

// count a multiple of sixteen.
TIGHTDP_DECLARE_SIMD(double, prv_sum_squares, (const double* p, std::int64_t count))

}  // namespace tightdp

namespace tightdp::prv {

// Mass p[i mod n] at y_i = i h + offset for first <= i < first + n. Holds a pointer to p.
//
// delta(eps) = sum over y_i > eps of p_i (1 - e^{eps - y_i}), down to the `floor` that the constructor is
// given. Suffix sums are kept at the starts of blocks, so that a query reads points of one block only.
class Curve {
  public:
    static constexpr std::int64_t kBlock = 512;

    // n a multiple of kBlock, first too.
    Curve(const double* p, std::size_t n, long long first, double h, double offset, double floor);

    // eps >= floor.
    double delta(double eps) const;

    // The largest eps with delta(eps) >= target > 0; -inf if it lies under the floor, or if there is none.
    double epsilon(double target) const;

    // Upper bound on the number of points at or above eps.
    double points_above(double eps) const;

    // Bound on the error of delta() and of what epsilon() reads against exact sums over the same p, as a share of the
    // sum of their magnitudes; but for the rounding of eps and of the points, which moves eps by 16 u (|eps| + 1).
    double rounding_bound() const;

  private:
    // Sums of p_i and of p_i e^{from - y_i} over the points from some point on.
    struct Sums {
        double mass, discounted;

        double delta() const { return mass - discounted; }
    };

    // The sums over the points above i, as seen from `from`; i + 1 is at least the start of the last block that has a
    // suffix.
    Sums above(long long i, double from) const;

    double at(long long i) const { return p_[static_cast<std::size_t>(i) & (n_ - 1)]; }
    double y(long long i) const { return static_cast<double>(i) * h_ + offset_; }
    long long block_start(std::size_t b) const { return end_ - static_cast<long long>(b + 1) * kBlock; }

    const double* p_;
    std::size_t n_;
    long long end_;
    double h_, offset_;
    std::vector<Sums> suffix_;  // of the points from the start of a block on, seen from there; from the top block down
};

}  // namespace tightdp::prv
