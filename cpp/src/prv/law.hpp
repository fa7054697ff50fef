// Properties of a privacy loss that the PRV engine uses: the same four questions for every distribution.
//
// Gopi, Lee, Wutschitz, "Numerical composition of differential privacy", 2021; docs/theory/prv.md, section 2.
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "tightdp/config.hpp"

namespace tightdp::prv {

// [low, high] holds Y but for probability `tail`, and E[|Y|; Y outside] <= tail_moment.
struct Support {
    double low, high, tail, tail_moment;
};

// E[Y] within `error`.
struct Mean {
    double value, error;
};

// Bound on the distance of E[Y] from the mean of Y given that it lies in the support; tail < 1.
inline double truncation_of_mean(const Mean& mean, const Support& s) {
    return 1.01 * (s.tail_moment + std::fabs(mean.value) * s.tail) / (1 - s.tail);
}

// N(mu^2/2, mu^2). `spread` bounds the relative error of mu, which may be a sum of many.
struct GaussianLaw {
    double mu, spread;
};

// F(y) = e^{(y - mu)/2} / 2 on [-mu, mu), atoms e^{-mu}/2 at -mu and 1/2 at mu.
struct LaplaceLaw {
    double mu;
};

// +-eps with odds e^eps : 1.
struct PureLaw {
    double eps;
};

// L = ln(1 - q + q e^t), t = x/sigma^2 - 1/(2 sigma^2). "remove": Y = L, x ~ (1-q) N(0, sigma^2) + q N(1,
// sigma^2); "add": Y = -L, x ~ N(0, sigma^2). q in (0, 1).
struct SampledLaw {
    double sigma, q;
    bool add;
};

using Law = std::variant<GaussianLaw, LaplaceLaw, PureLaw, SampledLaw>;

// A support with tail <= `tail`, tail in (0, 1).
Support support(const Law& law, double tail);

Mean mean(const Law& law);

// Largest displacement of the edge of a cell from where it should be: the rounding errors of the distribution
// function, as a displacement in y, for edges in the support.
double edge_error(const Law& law, const Support& s);

// Sets out[i] = P(Y in ((first + i - 1/2) h, (first + i + 1/2) h]), i < count, each within 4 u relatively of the
// probability between displaced edges (at most two cells excepted, within 2 u absolutely).
void cells(const Law& law, double h, long long first, std::int64_t count, double* out);

// The distribution of the reversed pair (Q, P).
Law reversed(const Law& law);

}  // namespace tightdp::prv
