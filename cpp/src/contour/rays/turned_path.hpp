// E[(1 + e^t)^{1 + z} - 1] of one sampled Gaussian, with the line of integration of h = ln(1 + e^t) turned to the ray
// arg h = angle. docs/theory/rays.md, sections 2 to 4.
#pragma once

#include <cstdint>
#include <vector>

#include "contour/composition.hpp"

namespace tightdp::contour {

struct Complex {
    double re, im;
};

// e^{re + i im} - 1: each part errs by at most 30u min(2, |x|) max(1, e^re), x = re + i im.
Complex expm1_complex(double re, double im);

// t is normal with this mean and deviation 1/sigma.
struct LogRatioLaw {
    double sigma, q, count;
    double mean, mean_terms;  // mean_terms: the sum of the absolute values of the mean's terms

    explicit LogRatioLaw(const Sampled& s);
};

// A point of a path, where B = sigma / sqrt(2 pi) tau' e^{gaussian + gamma h}.
struct PathPoint {
    double rho;  // |h|
    double h_re, h_im;
    double v;          // |tau - mean|
    double tau;        // |tau|
    Complex slope;     // tau' = dtau / dln h
    Complex gaussian;  // -sigma^2 (tau - mean)^2 / 2
};

// The point at ln h = p + i angle.
PathPoint path_point(const LogRatioLaw& law, double p, double cosine, double sine);

// Integrals of |B| and of |B h| over a ray, at most (section 3.1).
struct PathNorms {
    double size = 0, first = 0;
};

// Bounds on what the nodes leave out on either side: integrals of |B| and |B h| left of the first node and right of the
// last (section 3.2).
struct PathTails {
    PathNorms left, right;
};

// ln h of the ends of a path.
struct PathRange {
    double left, right;
};

// Chooses the ends of a path so that the rest has a weight of about e^-need. False where no end was found.
bool path_range(const LogRatioLaw& law, double gamma, double angle, double need, PathRange& range);
PathTails path_tails(const LogRatioLaw& law, double gamma, double angle, const PathRange& range);
PathNorms path_norms(const LogRatioLaw& law, double gamma, double angle, const PathRange& range);

// The nodes of a path: ln h = step * i + i angle, i = first, first + 1, ...
struct TurnedPath {
    std::int64_t first = 0;
    std::vector<double> re, im;               // step * B
    double start = 0;                         // E[(1 + e^t)^gamma - 1]
    PathTails tails;                          // of the nodes' sum
    double size = 0, first_moment = 0;        // sums of |B| and |B h| over the nodes
    double rounding = 0, first_rounding = 0;  // the same of |B| and |B h| times what a node errs by, in units of u

    std::int64_t nodes() const { return static_cast<std::int64_t>(re.size()); }
};

// turn: the angle of the rays of z plus that of the path.
TurnedPath turned_path(const LogRatioLaw& law, double gamma, double angle, double turn, double step,
                       const PathRange& range);

}  // namespace tightdp::contour
