// Interpolation of ln M in sigma, where M is the moment generating function of the privacy loss of a sampled Gaussian
// with the noise multiplier sigma. The composition has many noise multipliers ("levels") with one sampling probability.
// Interpolation replaces the sum over all levels by a weighted sum over a few nodes (docs/theory/contour.md, section
// 11).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "contour/composition.hpp"
#include "contour/inversion/trapezoid_sum.hpp"
#include "contour/mgf/sampled_mgf.hpp"
#include "near_level.hpp"

namespace tightdp::contour {

// An interpolation in sigma of f(sigma) = ln M, where M is the moment generating function of one level. The nodes are
// values of sigma in an interval. The error is bounded by the values of f on an ellipse around this interval.
class Interpolation {
  public:
    // Makes an interpolation of ln M(z) for "remove" or "add", where z = c + i s for any real s. The levels are sorted
    // by sigma. The interpolated ln M of each level has an error of about e^{-log_inverse} where |M(z)/M(c)| is near 1.
    // Returns nothing if no interpolation with fewer nodes than levels has a bound on its error.
    static std::optional<Interpolation> make_interpolation(std::span<const Sampled> levels, Direction direction,
                                                           double c, double log_inverse);

    std::vector<SampledMgf>& nodes() { return nodes_; }
    const std::vector<SampledMgf>& nodes() const { return nodes_; }

    // Returns the sum of count * ln M over all levels at the abscissa c, with error bounds. SampledMgf::place_nodes
    // must have placed the quadrature nodes of each of nodes().
    CertifiedLogMgf log_mgf();
    // Returns an upper bound on the sum of count * ln M over all levels at another real abscissa c, for which the
    // quadrature nodes must be placed too. The bound is infinite if the error of the interpolation is too large
    // (kLooseEnough).
    double log_mgf_upper(double c);

    // Adds the sum of count * ln(M(c + i m step)/M(c)) over all levels to ratios[m], m = 1, 2, ...
    void add_to_ratios(std::vector<LogRatio>& ratios, double step);

  private:
    // A node at which M is known, and the cell on which M is bounded by its value at this node. The cell is the part of
    // the ellipse with real parts from `left` to `right`. The outermost cells end with the ellipse.
    struct Reference {
        std::size_t node;
        double left, right;
    };
    // An ellipse whose foci are the ends of the interval, and the bounds that hold on it.
    struct Ellipse {
        // `rho` is the sum of the half-axes in units of half the distance of the foci. `error` is the error of an
        // interpolation relative to the largest |f| on the ellipse.
        double rho, error;
        // The bound D of near_level.hpp on the change of M in a cell, for each reference.
        std::vector<double> distances;
        double largest_distance, largest_log_factor;  // the largest of these D, and the largest |ln G| (near_level.hpp)
    };

    Interpolation(double middle, double half, double q, Direction direction, double c)
        : middle_(middle), half_(half), q_(q), direction_(direction), c_(c) {}
    Box cell_box(double rho, const Reference& at) const;
    // Returns bounds on M at the abscissa c, one for the cell of each reference. The bounds hold on the ellipse of this
    // rho and of each smaller rho. Returns an empty list if a cell extends too far from its reference.
    std::vector<NearLevel> measure_cells(double rho, double c) const;
    Ellipse make_ellipse(double rho, std::span<const NearLevel> near) const;
    CertifiedLogMgf log_mgf(double c, std::span<const Ellipse> ellipses);
    void weigh_nodes(std::span<const Sampled> levels);

    double middle_, half_, q_;
    Direction direction_;
    double c_;
    std::vector<double> sigmas_;
    std::vector<SampledMgf> nodes_;
    std::vector<double> weights_, weight_errors_;
    std::vector<Reference> references_;
    std::vector<Ellipse> ellipses_;
};

// Splits levels with any sampling probabilities into interpolations and `rest`, the levels that are not interpolated.
// The levels are sorted by q and then by sigma.
void split_into_interpolations(std::span<const Sampled> levels, Direction direction, double c, double log_inverse,
                               std::vector<Interpolation>& out, std::vector<Sampled>& rest);

}  // namespace tightdp::contour
