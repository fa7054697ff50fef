#include "curve.hpp"

#include <algorithm>
#include <cmath>

#include "tightdp/config.hpp"

namespace tightdp::prv {

Curve::Curve(const double* p, std::size_t n, long long first, double h, double offset, double floor)
    : p_(p), n_(n), end_(first + static_cast<long long>(n)), h_(h), offset_(offset) {
    double decay[kBlock];
    for (std::int64_t j = 0; j < kBlock; ++j) decay[j] = std::exp(-static_cast<double>(j) * h);
    const double block_decay = std::exp(-static_cast<double>(kBlock) * h);
    Suffix above{0, 0};
    const std::size_t blocks = n / kBlock;
    for (std::size_t b = 0; b < blocks; ++b) {
        const long long start = block_start(b);
        double mass, discounted;
        TIGHTDP_SELECT_SIMD(prv_block_sums)
        (p + (static_cast<std::size_t>(start) & (n - 1)), decay, kBlock, mass, discounted);
        above = {above.mass + mass, above.discounted * block_decay + discounted};
        suffix_.push_back(above);
        if (y(start) <= floor) break;
    }
}

double Curve::points_above(double eps) const {
    return std::clamp(static_cast<double>(end_) - (eps - offset_) / h_ + 1, 0.0, static_cast<double>(n_));
}

double Curve::rounding_bound() const {
    // Eight interleaved sums of 64 terms, then one addition and two products a block; both sums are at most 1
    // + 2^-20.
    return (160 + 4 * static_cast<double>(suffix_.size())) * kUnitRoundoff;
}

double Curve::delta(double eps) const {
    // Whole blocks above eps, then the cells of the block that it cuts.
    std::size_t whole = 0;
    while (whole < suffix_.size() && y(block_start(whole)) > eps) ++whole;
    double mass = 0, discounted = 0;
    if (whole > 0) {
        mass = suffix_[whole - 1].mass;
        discounted = suffix_[whole - 1].discounted * std::exp(eps - y(block_start(whole - 1)));
    }
    if (whole < suffix_.size()) {
        for (long long i = block_start(whole) + kBlock - 1; y(i) > eps; --i) {
            mass += at(i);
            discounted += at(i) * std::exp(eps - y(i));
        }
    }
    return mass - discounted;
}

double Curve::epsilon(double target) const {
    // delta at the start of a block is mass - discounted there (the first point contributes nothing to it).
    std::size_t b = 0;
    while (b < suffix_.size() && suffix_[b].mass - suffix_[b].discounted < target) ++b;
    if (b == suffix_.size()) return -HUGE_VAL;
    double mass = b > 0 ? suffix_[b - 1].mass : 0, discounted = b > 0 ? suffix_[b - 1].discounted : 0;
    const double step = std::exp(-h_);
    const long long start = block_start(b);
    long long i = start + kBlock - 1;
    // Above point i: mass, and `discounted` as seen from point i + 1.
    for (; i > start; --i) {
        if (mass - discounted * step >= target) break;
        discounted = discounted * step + at(i);
        mass += at(i);
    }
    // Between points i and i + 1, delta(eps) = mass - discounted e^{eps - y_{i+1}}.
    if (!(discounted > 0) || mass <= target) return y(i);
    return std::clamp(y(i + 1) + std::log((mass - target) / discounted), y(i), y(i + 1));
}

}  // namespace tightdp::prv
