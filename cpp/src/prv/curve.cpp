#include "curve.hpp"

#include <algorithm>
#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp::prv {

Curve::Curve(const double* p, std::size_t n, long long first, double h, double offset, double floor)
    : p_(p), n_(n), end_(first + static_cast<long long>(n)), h_(h), offset_(offset) {
    for (std::size_t j = 0; j <= kBlock; ++j) decay_[j] = std::exp(-static_cast<double>(j) * h);
    Sums above{0, 0};
    const std::size_t blocks = n / kBlock;
    for (std::size_t b = 0; b < blocks; ++b) {
        const long long start = curve_block_start(b);
        double mass, discounted;
        TIGHTDP_SELECT_SIMD(sum_curve_block)
        (p + (static_cast<std::size_t>(start) & (n - 1)), decay_.data(), kBlock, mass, discounted);
        above = {above.mass + mass, above.discounted * decay_[kBlock] + discounted};
        suffix_.push_back(above);
        if (prv_loss_at_point(start) <= floor) break;
    }
}

double Curve::points_above(double eps) const {
    return std::clamp(static_cast<double>(end_) - (eps - offset_) / h_ + 1, 0.0, static_cast<double>(n_));
}

double Curve::rounding_bound() const {
    // Each of the two sums goes through about 75 additions and three factors. Each block adds five roundings (prv.md,
    // section 4.4).
    return (160 + 5 * static_cast<double>(suffix_.size())) * kUnitRoundoff;
}

Curve::Sums Curve::sums_above(long long i) const {
    const auto whole = static_cast<std::size_t>((end_ - 1 - i) / kBlock);
    const auto count = static_cast<std::size_t>(end_ - 1 - i) % kBlock;  // points of the block that is cut
    if (count == 0) return suffix_[whole - 1];
    const double* const p = p_ + (static_cast<std::size_t>(i + 1) & (n_ - 1));
    const std::size_t lanes = count - count % 8;  // the points that sum_curve_block adds up, in its eight lanes
    Sums sums{};
    TIGHTDP_SELECT_SIMD(sum_curve_block)
    (p, decay_.data(), static_cast<std::int64_t>(lanes), sums.mass, sums.discounted);
    for (std::size_t j = lanes; j < count; ++j) {
        sums.mass += p[j];
        sums.discounted += p[j] * decay_[j];
    }
    if (whole == 0) return sums;
    const Sums& rest = suffix_[whole - 1];
    return {sums.mass + rest.mass, sums.discounted + rest.discounted * decay_[count]};
}

double Curve::delta_at(long long i) const {
    const Sums sums = sums_above(i);
    return sums.mass - sums.discounted * decay_[1];
}

double Curve::delta(double eps) const {
    const long long lowest = curve_block_start(suffix_.size() - 1) - 1;
    const double nearest = std::clamp((eps - offset_) / h_, static_cast<double>(lowest), static_cast<double>(end_));
    auto i = static_cast<long long>(nearest);  // after the two loops below, the last point that is at most eps
    while (i > lowest && prv_loss_at_point(i) > eps) --i;
    while (i < end_ - 1 && prv_loss_at_point(i + 1) <= eps) ++i;
    if (i >= end_ - 1) return 0;
    const Sums sums = sums_above(i);
    return sums.mass - sums.discounted * std::exp(eps - prv_loss_at_point(i + 1));
}

double Curve::epsilon(double target) const {
    std::size_t b = 0;
    while (b < suffix_.size() && suffix_[b].mass - suffix_[b].discounted < target) ++b;
    if (b == suffix_.size()) {
        // Left of the lowest point, delta still rises towards the total mass as eps falls. The result may lie there if
        // all blocks have sums.
        const Sums& all = suffix_.back();
        const bool whole = suffix_.size() * static_cast<std::size_t>(kBlock) == n_;
        if (!(whole && all.mass > target && all.discounted > 0)) return -HUGE_VAL;
        return prv_loss_at_point(curve_block_start(b - 1)) +
               std::min(0.0, std::log((all.mass - target) / all.discounted));
    }
    // delta is at least the target at the start of block b, and less than the target at the end of the block.
    long long i = curve_block_start(b), end = i + kBlock;
    while (end - i > 1) {
        const long long middle = i + (end - i) / 2;
        (delta_at(middle) >= target ? i : end) = middle;
    }
    // The curve between points i and i + 1 is delta(eps) = mass - discounted e^{eps - y_{i+1}}.
    const auto [mass, discounted] = sums_above(i);
    if (!(discounted > 0) || mass <= target) return prv_loss_at_point(i);
    return std::clamp(prv_loss_at_point(i + 1) + std::log((mass - target) / discounted), prv_loss_at_point(i),
                      prv_loss_at_point(i + 1));
}

}  // namespace tightdp::prv
