// Many noise multipliers of one sampling probability as few: ln M is interpolated in sigma, so that their sum becomes
// one over the nodes of the interpolation, with weights. docs/theory/contour.md, section 11.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "contour/composition.hpp"
#include "contour/inversion/trapezoid_sum.hpp"
#include "contour/mgf/sampled_mgf.hpp"
#include "near_level.hpp"

namespace tightdp::contour {

class Interpolation {
  public:
    // Makes the interpolation of levels in the order of sigma, at abscissae c + is ("remove" or "add"), each within
    // about e^{-log_inverse} where |M(c + is)/M(c)| is near 1. Returns nothing unless it is known to take fewer nodes
    // than there are levels.
    static std::optional<Interpolation> of(std::span<const Sampled> levels, Direction direction, double c,
                                           double log_inverse);

    std::vector<SampledMgf>& nodes() { return nodes_; }
    const std::vector<SampledMgf>& nodes() const { return nodes_; }

    // Sum of count * ln M at the abscissa c, certified, on nodes that were placed.
    CertifiedLogMgf log_mgf();
    // An upper bound on the sum of count * ln M at another abscissa, for which the nodes were placed as well; infinite
    // where it is not known to within a part of a nat.
    double bounded(double c);

    // Adds the sum of count * ln(M(c + i m step)/M(c)) to ratios[m], m = 1, 2, ...
    void add_to(std::vector<LogRatio>& ratios, double step);

  private:
    // The node that stands for a cell of the ellipse; the outer ends are those of the ellipse.
    struct Reference {
        std::size_t node;
        double left, right;
    };
    struct Ellipse {
        double rho, error;          // of an interpolation, relative to the largest |f|
        std::vector<double> apart;  // D of each reference
        double most_apart, front;   // the largest of them, and of |ln G|
    };

    Interpolation(double middle, double half, double q, Direction direction, double c)
        : middle_(middle), half_(half), q_(q), direction_(direction), c_(c) {}
    Box box(double rho, const Reference& at) const;
    // Measures the references at the abscissa c, for this rho and smaller ones; empty where neighbours of a reference
    // are too far apart.
    std::vector<NearLevel> measure(double rho, double c) const;
    Ellipse ellipse(double rho, std::span<const NearLevel> near) const;
    CertifiedLogMgf log_mgf(double c, std::span<const Ellipse> ellipses);
    void weigh(std::span<const Sampled> levels);

    double middle_, half_, q_;
    Direction direction_;
    double c_;
    std::vector<double> sigmas_;
    std::vector<SampledMgf> nodes_;
    std::vector<double> weights_, weight_errors_;
    std::vector<Reference> references_;
    std::vector<Ellipse> ellipses_;
};

// Splits levels of any sampling probability, in the order of q and sigma, into interpolations and a rest.
void interpolate(std::span<const Sampled> levels, Direction direction, double c, double log_inverse,
                 std::vector<Interpolation>& out, std::vector<Sampled>& rest);

}  // namespace tightdp::contour
