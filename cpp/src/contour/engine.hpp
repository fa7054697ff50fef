// delta(epsilon) and epsilon(delta) of a composition of Poisson-subsampled and plain Gaussians, certified.
// Statement and proof: docs/theory/contour.md. The term names match its sections.
#pragma once

#include <span>

#include "quadrature.hpp"

namespace tightdp::contour {

struct Sampled {
    double sigma;  // noise multiplier, > 0
    double q;      // sampling probability, in (0, 1)
    double count;  // integer >= 1
};

struct Composition {
    std::span<const Sampled> sampled;
    double gaussian_mu2;  // sum of count / sigma^2 over plain Gaussians, >= 0
    Pair pair;            // of each sampled one
};

enum class Status {
    certified,
    slow_decay,      // few steps of small q: the characteristic function does not decay within reach
    too_many_nodes,  // small sigma: the strip of analyticity is narrow
    inaccurate,      // the certified error exceeds the value
    out_of_work,     // very many parts, or nodes, and an abscissa that is hard to find
};

struct Result {
    Status status = Status::inaccurate;
    double lower = 0, upper = 0;
    // Parts of the width, in the unit of the answer.
    double aliasing = 0, truncation = 0, quadrature = 0, rounding = 0;
    long nodes = 0, abscissae = 0;
};

// Both throw nothing but Interrupted (work.hpp) and read nothing but their arguments. tolerance: relative error of delta aimed at, in
// [1e-13, 1e-2]; the bounds hold whatever it is.
Result epsilon(const Composition& composition, double delta, double tolerance);  // 0 < delta < 1
Result delta(const Composition& composition, double epsilon, double tolerance);  // finite epsilon

}  // namespace tightdp::contour
