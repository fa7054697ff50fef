// The privacy profile of a discrete privacy loss. The masses are stored in a circular array.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/dispatch.hpp"

namespace tightdp {

// Computes sum = sum_j p[j] and weighted = sum_j p[j] decay[j]. `count` is a multiple of eight.
TIGHTDP_DECLARE_SIMD(void, sum_curve_block,
                     (const double* p, const double* decay, std::int64_t count, double& sum, double& weighted))

// Returns the sum of the squares of p[j]. `count` is a multiple of sixteen.
TIGHTDP_DECLARE_SIMD(double, sum_curve_squares, (const double* p, std::int64_t count))

}  // namespace tightdp

namespace tightdp::prv {

// The curve delta(eps) = sum over y_i > eps of p_i (1 - e^{eps - y_i}), for eps >= floor. The mass p_i = p[i mod n]
// lies at the loss y_i = i h + offset, for first <= i < first + n. The object holds a pointer to p.
//
// Suffix sums are stored for the starts of blocks of points, from the highest block down to the block of the floor.
// Evaluating the curve reads the points of one block only.
class Curve {
  public:
    static constexpr std::int64_t kBlock = 512;

    // Preconditions: n and first are multiples of kBlock.
    Curve(const double* p, std::size_t n, long long first, double h, double offset, double floor);

    // Returns delta(eps) for eps >= floor.
    double delta(double eps) const;

    // Returns the largest eps with delta(eps) >= target > 0. Returns -inf if there is no such eps, or if it lies below
    // the floor.
    double epsilon(double target) const;

    // Returns an upper bound on the number of points at or above eps.
    double points_above(double eps) const;

    // Returns a bound on the rounding errors of delta() and of the values that epsilon() reads, relative to the sum of
    // the magnitudes of p. The bound does not include the rounding of eps and of the points, which moves eps by at most
    // 2^-49 (|eps| + 1).
    double rounding_bound() const;

  private:
    // Sums of p_i and of p_i e^{from - y_i} over all points i >= j for some j. `from` is a reference loss.
    struct Sums {
        double mass, discounted;
    };

    // Returns the sums over the points i + 1 to end_ - 1, where `from` is the loss at point i + 1. Preconditions: i <
    // end_ - 1, and point i + 1 lies in a block that has a suffix sum.
    Sums sums_above(long long i) const;

    // Returns delta at the loss y_i. sums_above() has the same preconditions.
    double delta_at(long long i) const;

    double prv_loss_at_point(long long i) const { return static_cast<double>(i) * h_ + offset_; }
    long long curve_block_start(std::size_t b) const { return end_ - static_cast<long long>(b + 1) * kBlock; }

    const double* p_;
    std::size_t n_;
    long long end_;  // first + n
    double h_, offset_;
    std::array<double, kBlock + 1> decay_;  // e^{-j h}
    // The sums for the blocks, from the highest block down. The sums of a block run over all points from the start of
    // the block on, and `from` is the loss at this start.
    std::vector<Sums> suffix_;
};

}  // namespace tightdp::prv
