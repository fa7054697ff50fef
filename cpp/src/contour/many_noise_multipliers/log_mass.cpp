// Bounds on ln(N(sigma) / sqrt(2 pi)), where N(sigma) is the normalisation in log_mass.hpp.
#include "log_mass.hpp"

#include <cmath>

#include "contour/mgf/sampled_mgf.hpp"

namespace tightdp::contour {
namespace {

// M(c), the moment generating function of the privacy loss, is computed with a relative error of about e^-kLogInverse.
// This error is small enough to tell apart the values N(sigma) of two noise multipliers that differ by a thousandth.
constexpr double kLogInverse = 32;

}  // namespace

LogMass log_mass(const Pair& pair, double c) {
    SampledMgf mgf(pair, 1);
    if (!mgf.place_nodes(c, 0, kLogInverse, kMaxGuideNodes)) return {-HUGE_VAL, HUGE_VAL};
    const CertifiedLogMgf k = mgf.log_mgf(c);
    const double sigma = pair.sigma;
    const double bend = 0.125 / (sigma * sigma), log_sigma = std::log(sigma), value = k.value + bend - log_sigma;
    const double off = k.rule + k.rounding + 8 * kUnitRoundoff * (std::fabs(k.value) + bend + std::fabs(log_sigma));
    return {value - off, value + off};
}

}  // namespace tightdp::contour
