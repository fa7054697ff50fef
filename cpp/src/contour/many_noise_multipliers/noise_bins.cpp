#include "noise_bins.hpp"

#include <algorithm>
#include <cmath>

#include "log_mass.hpp"

namespace tightdp::contour {
namespace {

// Returns a lower bound on N(high) / N(low), where `high` and `low` are the largest and smallest noise multiplier of a
// bin. N(sigma) is the integral by which the tilted density for the noise multiplier sigma is normalised
// (log_mass.hpp). The quotient is at most 1, and is the weight `share` of contour.md, section 10.
double bound_noise_bin_share(const NoiseBin& bin, Direction direction, double c) {
    if (bin.low == bin.high) return 1;
    const double log_share =
        log_mass({bin.high, bin.q, direction}, c).lower - log_mass({bin.low, bin.q, direction}, c).upper;
    const double share = std::exp(log_share) * (1 - 1e-9);
    return share > 0 ? std::min(share, 1.0) : 0;
}

}  // namespace

std::vector<NoiseBin> bin_noise_levels(std::span<const Sampled> levels, double widest) {
    std::vector<NoiseBin> out;
    for (const Sampled& part : levels) {
        if (out.empty() || out.back().q != part.q || part.sigma > widest * out.back().low) {
            out.push_back({part.q, part.sigma, part.sigma, 0, 0, 0});
        }
        NoiseBin& bin = out.back();
        bin.high = part.sigma;
        bin.count += part.count;
        bin.members += 1;
        bin.middle += part.count / (part.sigma * part.sigma);
    }
    for (NoiseBin& bin : out) bin.middle = std::clamp(std::sqrt(bin.count / bin.middle), bin.low, bin.high);
    return out;
}

NoiseBinTail::NoiseBinTail(const NoiseBin& bin, Direction direction, double c, double first_s, double log_inverse)
    : count_(bin.count),
      tail_({bin.high, bin.q, direction}, c, first_s, log_inverse),
      share_(bound_noise_bin_share(bin, direction, c)) {}

double NoiseBinTail::log_decay(double s) const {
    const double all = tail_.log_decay(s);
    return count_ * (share_ < 1 ? -std::log1p(share_ * std::expm1(-all)) * (1 - 1e-9) : all);
}

}  // namespace tightdp::contour
