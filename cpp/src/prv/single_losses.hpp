// Privacy loss distributions of the PRV engine, with the four functions that the engine needs of each distribution:
// prv_support, prv_mean, edge_error and prv_cells (docs/theory/prv.md, section 2).
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "tightdp/config.hpp"

namespace tightdp::prv {

// An interval [low, high] that contains the loss Y except with probability `tail`. Losses outside of the interval
// contribute at most `tail_moment` to E[|Y|].
struct Support {
    double low, high, tail, tail_moment;
};

// The mean E[Y], with an absolute error of at most `error`.
struct Mean {
    double value, error;
};

// Returns a bound on the distance between E[Y] and the mean of Y given that Y lies in the support, for tail < 1.
inline double prv_mean_truncation(const Mean& mean, const Support& s) {
    return 1.01 * (s.tail_moment + std::fabs(mean.value) * s.tail) / (1 - s.tail);
}

// The Gaussian mechanism, whose loss has the distribution N(mu^2/2, mu^2). mu may come from a sum over many parts, and
// `spread` bounds its relative error.
struct GaussianLaw {
    double mu, spread;
};

// The Laplace mechanism. The loss has the distribution function e^{(y - mu)/2} / 2 on [-mu, mu), and atoms of mass
// e^{-mu}/2 at -mu and 1/2 at mu.
struct LaplaceLaw {
    double mu;
};

// Pure differential privacy. The loss is eps or -eps with the odds e^eps : 1.
struct PureLaw {
    double eps;
};

// The Gaussian mechanism on a Poisson sample, with q in (0, 1). Let L = ln(1 - q + q e^t) with
// t = x/sigma^2 - 1/(2 sigma^2). For "remove", the loss is Y = L with x ~ (1-q) N(0, sigma^2) + q N(1, sigma^2). For
// "add", the loss is Y = -L with x ~ N(0, sigma^2).
struct SampledLaw {
    double sigma, q;
    bool add;
};

using Law = std::variant<GaussianLaw, LaplaceLaw, PureLaw, SampledLaw>;

// Returns a support whose `tail` is at most the given one, which is in (0, 1).
Support prv_support(const Law& law, double tail);

// Returns the mean of the loss.
Mean prv_mean(const Law& law);

// Returns a d such that the rounding errors of the distribution function have the effect of displacing the ends of
// cells by at most d. These ends, called edges, lie in the support.
double edge_error(const Law& law, const Support& s);

// Computes out[i] = P(Y in ((first + i - 1/2) h, (first + i + 1/2) h]) for i < count. Each out[i] is within a relative
// 2^-51 of the probability of a cell whose edges are displaced by at most edge_error(). At most two cells have an
// absolute error of 2^-52 instead.
void prv_cells(const Law& law, double h, long long first, std::int64_t count, double* out);

// Returns the distribution of the reversed pair (Q, P).
Law reverse_prv_single_losses(const Law& law);

}  // namespace tightdp::prv
