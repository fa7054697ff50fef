// The cumulant generating function of the whole composition on the contour.
#pragma once

#include <cmath>
#include <vector>

#include "engine.hpp"
#include "part.hpp"

namespace tightdp::contour {

// Plain Gaussians in closed form, sampled ones on nodes that follow the abscissa.
class Cumulant {
  public:
    explicit Cumulant(const Composition& composition) : mu2_(composition.gaussian_mu2) {
        for (const Sampled& s : composition.sampled) {
            parts_.emplace_back(s.sigma, s.q, s.count, composition.pair);
            total_count_ += s.count;
        }
    }

    std::vector<Part>& parts() { return parts_; }
    double total_count() const { return total_count_; }
    double mu2() const { return mu2_; }

    bool place(double c_most, double s_most, double log_inverse, long most_nodes) {
        reach_ = c_most;
        for (Part& part : parts_)
            if (!part.place(c_most, s_most, log_inverse, most_nodes)) return false;
        return true;
    }

    // Extends coarse nodes as needed. False: too many nodes.
    bool at(double c, Cumulants& out) {
        if (c > reach_ && !place(2 * c, 0, std::log(1e4 * (1 + total_count_)), kMaxGuideNodes)) return false;
        out = {0.5 * mu2_ * c * (c + 1), mu2_ * (c + 0.5), mu2_};
        for (Part& part : parts_) {
            const Cumulants k = part.cumulants(c);
            out.k0 += k.k0;
            out.k1 += k.k1;
            out.k2 += k.k2;
        }
        return true;
    }

    // ln M(c) of the composition with its error, on the nodes placed last.
    CertifiedLogMgf certified(double c) {
        CertifiedLogMgf sum{0.5 * mu2_ * c * (c + 1), 0, 0};
        sum.rounding = 10 * kUnitRoundoff * sum.value;
        for (Part& part : parts_) {
            const CertifiedLogMgf k = part.log_mgf(c);
            sum.value += k.value;
            sum.rule += k.rule;
            sum.rounding += k.rounding + 2 * kUnitRoundoff * std::abs(sum.value);
        }
        return sum;
    }

  private:
    std::vector<Part> parts_;
    double mu2_, total_count_ = 0, reach_ = -1;
};

}  // namespace tightdp::contour
