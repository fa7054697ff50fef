#include "bins.hpp"

#include <algorithm>
#include <cmath>

#include "part.hpp"

namespace tightdp::contour {
namespace {

// A bin this wide loses a thirtieth of the decay (section 10).
constexpr double kWidestBin = 1.03;

double lower(const CertifiedLogMgf& k) {
    return k.value - k.rule - k.rounding;
}

// At most 1: with rounding, a lower bound.
double least_share(const Bin& bin, Pair pair, double c) {
    if (bin.low == bin.high) return 1;
    Part quiet(bin.high, bin.q, 1, pair), loud(bin.low, bin.q, 1, pair);
    for (Part* part : {&quiet, &loud})
        if (!part->place(c, 0, 20, kMaxGuideNodes)) return 0;
    const double spread = 0.125 / (bin.high * bin.high) - 0.125 / (bin.low * bin.low);
    const double log_share = lower(quiet.log_mgf(c)) - loud.log_mgf(c).upper() + std::log(bin.low / bin.high) + spread;
    const double share = std::exp(log_share - 1e-14 * (1 + std::abs(spread))) * (1 - 1e-9);
    return share > 0 ? std::min(share, 1.0) : 0;
}

}  // namespace

std::vector<Bin> bins(std::span<const Sampled> parts) {
    std::vector<Sampled> sorted(parts.begin(), parts.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const Sampled& a, const Sampled& b) { return a.q < b.q || (a.q == b.q && a.sigma < b.sigma); });
    std::vector<Bin> out;
    for (const Sampled& part : sorted) {
        if (out.empty() || out.back().q != part.q || part.sigma > kWidestBin * out.back().low) {
            out.push_back({part.q, part.sigma, part.sigma, 0, 0});
        }
        Bin& bin = out.back();
        bin.high = part.sigma;
        bin.count += part.count;
        bin.members += 1;
    }
    return out;
}

BinTail::BinTail(const Bin& bin, Pair pair, double c, double first_s, double log_inverse)
    : tail_(bin.high, bin.q, pair, c, first_s, log_inverse), share_(least_share(bin, pair, c)) {}

double BinTail::log_decay(double s) const {
    const double all = tail_.log_decay(s);
    return share_ < 1 ? -std::log1p(share_ * std::expm1(-all)) * (1 - 1e-9) : all;
}

}  // namespace tightdp::contour
