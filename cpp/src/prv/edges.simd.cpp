// Distribution functions at the edges of the cells of a grid. The errors are derived in docs/theory/prv.md, section 4.
#include "edges.simd.hpp"

#include <cmath>

#include "simd/math.hpp"
#include "tightdp/special/mills.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

constexpr double kInvSqrtTwoPi = 0.39894228040143267794;

// Loss y beyond which ln((e^y - 1 + q)/q) is computed as y - ln q. The two differ by less than 5e-18.
constexpr double kFar = 40;

// Returns the sum over i of kMillsRatio.c[4 i + First] y4^i.
template <int First>
TIGHTDP_VINLINE Vec edge_mills_part(Vec y4) {
    constexpr int n = decltype(kMillsRatio)::size, top = First + (n - 1 - First) / 4 * 4;
    Vec sum = splat(kMillsRatio.c[top]);
#pragma GCC unroll 8
    for (int i = top - 4; i >= 0; i -= 4) sum = sum * y4 + kMillsRatio.c[i];
    return sum;
}

// Evaluates the polynomial kMillsRatio of tightdp/special/mills.hpp in four independent parts, so that chains of
// dependent operations are short.
TIGHTDP_VINLINE Vec edge_mills_polynomial(Vec y) {
    const Vec y2 = y * y, y4 = y2 * y2;
    return (edge_mills_part<0>(y4) + y * edge_mills_part<1>(y4)) +
           y2 * (edge_mills_part<2>(y4) + y * edge_mills_part<3>(y4));
}

// Returns g(z) of edges.simd.hpp, which is Phi(z) for z < 0 and -(1 - Phi(z)) for z >= 0. With `magnitude` = |z|,
// Mills' ratio is R(|z|) = polynomial((|z| - c)/(|z| + c)) / (1 + |z|), where c is kMillsCenter. Both quotients are
// computed from `inverse` = 1/((|z| + c)(1 + |z|)).
TIGHTDP_VINLINE Vec edge_signed_tail(Vec z, Vec magnitude, Vec inverse) {
    const Vec y = (magnitude - kMillsCenter) * ((1.0 + magnitude) * inverse);
    const Vec ratio = edge_mills_polynomial(y) * ((magnitude + kMillsCenter) * inverse);
    const Vec tail = kInvSqrtTwoPi * exp(-0.5 * (z * z)) * ratio;
    return select(z < 0.0, tail, -tail);
}

TIGHTDP_VINLINE Vec edge_magnitude(Vec z) {
    return min(abs(z), splat(1e3));
}

TIGHTDP_VINLINE Vec edge_denominator(Vec magnitude) {
    return (magnitude + kMillsCenter) * (1.0 + magnitude);
}

TIGHTDP_VINLINE Vec edge_signed_tail(Vec z) {
    const Vec magnitude = edge_magnitude(z);
    return edge_signed_tail(z, magnitude, 1.0 / edge_denominator(magnitude));
}

// Returns w0 g(z0) + w1 g(z1), with one division for both terms.
TIGHTDP_VINLINE Vec edge_signed_tails(Vec z0, double w0, Vec z1, double w1) {
    const Vec m0 = edge_magnitude(z0), m1 = edge_magnitude(z1), d0 = edge_denominator(m0), d1 = edge_denominator(m1);
    const Vec inverse = 1.0 / (d0 * d1);
    return w0 * edge_signed_tail(z0, m0, inverse * d1) + w1 * edge_signed_tail(z1, m1, inverse * d0);
}

TIGHTDP_VINLINE std::int64_t count_edges_left(Vec z, std::int64_t valid) {
    std::int64_t n = 0;
    for (int l = 0; l < kLanes && l < valid; ++l) n += z[l] < 0;
    return n;
}

}  // namespace

EdgesLeft prv_edges_sampled(double sigma, double q, double w0, double w1, double h, double first, std::int64_t count,
                            double* out) {
    const double inverse_q = 1 / q, log_q = std::log(q), half = 0.5 / sigma, shift = 1 / sigma;
    const bool mostly_sampled = q > 0.5;
    EdgesLeft left{0, 0};
    for (std::int64_t j = 0; j < count; j += kLanes) {
        const Vec y = ((first + static_cast<double>(j)) + iota()) * h;
        // e^y - 1 + q is computed in the form whose terms are smaller.
        Vec numerator = expm1(y) + q;
        if (mostly_sampled) numerator = select(y < -0.5, exp(y) - (1 - q), numerator);
        const Mask reached = numerator > 1e-300;  // otherwise y <= ln(1 - q)
        const Vec near = log(select(reached, numerator * inverse_q, splat(1.0)));
        const Vec t = select(y > kFar, y - log_q, near);
        const Vec z0 = select(reached, sigma * t + half, splat(-1e3)), z1 = z0 - shift;
        store(out + j, w1 > 0 ? edge_signed_tails(z0, w0, z1, w1) : w0 * edge_signed_tail(z0));
        if (z0[0] < 0) left.base += count_edges_left(z0, count - j);
        if (z1[0] < 0) left.shifted += count_edges_left(z1, count - j);
    }
    return left;
}

EdgesLeft prv_edges_gaussian(double mu, double h, double first, std::int64_t count, double* out) {
    const double inverse = 1 / mu;
    EdgesLeft left{0, 0};
    for (std::int64_t j = 0; j < count; j += kLanes) {
        const Vec y = ((first + static_cast<double>(j)) + iota()) * h;
        const Vec z = y * inverse - 0.5 * mu;
        store(out + j, edge_signed_tail(z));
        if (z[0] < 0) left.base += count_edges_left(z, count - j);
    }
    return left;
}

}  // namespace tightdp::TIGHTDP_ISA
