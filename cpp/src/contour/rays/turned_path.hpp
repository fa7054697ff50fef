// The integral D(z) = E[(1 + e^t)^{1 + z} - 1] of one Gaussian mechanism on a Poisson sample. The likelihood ratio of
// the mechanism is (1 - q)(1 + e^t) with a normal variable t. z is the argument of the moment generating function. The
// integral runs over h = ln(1 + e^t), along the ray arg h = angle. This ray is called a path, to tell it apart from the
// ray of z (docs/theory/rays.md, sections 1 to 4).
#pragma once

#include <cstdint>
#include <vector>

#include "contour/composition.hpp"

namespace tightdp::contour {

struct Complex {
    double re, im;
};

// Returns e^x - 1 for x = re + i im. The errors of the real part and of the imaginary part are at most
// 30u min(2, |x|) max(1, e^re), where u = 2^-53.
Complex path_expm1(double re, double im);

// The distribution of t: a normal distribution with the given mean and the standard deviation 1/sigma (rays.md, section
// 1). mean_terms is the sum of the magnitudes of the terms that make up the mean.
struct LogRatioLaw {
    double sigma, q, count;
    double mean, mean_terms;

    explicit LogRatioLaw(const Sampled& s);
};

// A point h of a path, with tau = ln(e^h - 1), which is the complex value of t there. The ray of z (ray_plan.hpp)
// starts at z = c, and gamma is 1 + c. The integrand at this point for z = c is
//     B = sigma / sqrt(2 pi) tau' e^{gaussian + gamma h}.
struct PathPoint {
    double rho;  // |h|
    double h_re, h_im;
    double v;          // |tau - mean|
    double tau;        // |tau|
    Complex slope;     // tau' = dtau / dln h
    Complex gaussian;  // -sigma^2 (tau - mean)^2 / 2
};

// Returns the point at ln h = p + i angle. `cosine` and `sine` are the cosine and the sine of the angle.
PathPoint path_point(const LogRatioLaw& law, double p, double cosine, double sine);

// Upper bounds on the integrals of |B| and of |B h| over a path (rays.md, section 3.1).
struct PathNorms {
    double size = 0, first = 0;
};

// Upper bounds on the integrals of |B| and |B h| left of the first node and right of the last node (rays.md, section
// 3.2).
struct PathTails {
    PathNorms left, right;
};

// ln |h| at the two ends of a path.
struct PathRange {
    double left, right;
};

// Chooses the ends of a path so that the integrals beyond them are about e^-need. Returns false if no end was found.
bool path_range(const LogRatioLaw& law, double gamma, double angle, double need, PathRange& range);
// Computes the bounds that PathTails and PathNorms describe.
PathTails path_tails(const LogRatioLaw& law, double gamma, double angle, const PathRange& range);
PathNorms turned_path_norms(const LogRatioLaw& law, double gamma, double angle, const PathRange& range);

// The nodes of a path and sums over them. At the node number j = first, first + 1, ..., ln h = step * j + i angle,
// where i is the imaginary unit.
struct TurnedPath {
    std::int64_t first = 0;
    std::vector<double> re, im;               // step * B at each node
    double start = 0;                         // E[(1 + e^t)^gamma - 1]
    PathTails tails;                          // bounds on what the sums over the nodes leave out
    double size = 0, first_moment = 0;        // sums of |step * B| and |step * B h| over the nodes
    double rounding = 0, first_rounding = 0;  // the same sums, each term times its relative error / u

    std::int64_t node_count() const { return static_cast<std::int64_t>(re.size()); }
};

// Computes the nodes. `turn` is the angle of the ray of z plus the angle of the path.
TurnedPath turned_path(const LogRatioLaw& law, double gamma, double angle, double turn, double step,
                       const PathRange& range);

}  // namespace tightdp::contour
