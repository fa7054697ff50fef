// Computes cells of the Gaussian privacy loss distribution by Gauss-Legendre quadrature. The errors are derived in
// docs/theory/grid.md, section 6.3.
#include "cell_loops.simd.hpp"
#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

namespace {

// The nodes v and weights w of the Gauss-Legendre rule with N nodes on [0, 1].
template <int N>
struct Rule;
template <>
struct Rule<3> {
    static constexpr double v[] = {0.11270166537925831148, 0.5, 0.88729833462074168852};
    static constexpr double w[] = {0.27777777777777777778, 0.44444444444444444444, 0.27777777777777777778};
};
template <>
struct Rule<5> {
    static constexpr double v[] = {0.046910077030668003601, 0.23076534494715845448, 0.5, 0.76923465505284154552,
                                   0.95308992296933199640};
    static constexpr double w[] = {0.11846344252809454376, 0.23931433524968323402, 0.28444444444444444444,
                                   0.23931433524968323402, 0.11846344252809454376};
};

// Returns e^{-x} for |x| <= .25 by its Taylor polynomial up to x^12/12!. The remainder is below 2^-58.
TIGHTDP_VINLINE Vec loss_cell_exp_minus(Vec x) {
    return horner(-x, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
                  1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0);
}

// Returns (1 - e^{-x}) / x for 0 <= x <= .3.
TIGHTDP_VINLINE Vec mean_exp_minus_over_loss_cell(Vec x) {
    return 1.0 - x * vec_taylor_of_exp(-x);
}

// Computes the masses s and t (CellBlock in loss_distribution.hpp) of cells of outputs [z, z + d] for the pair (N(mu,
// 1), N(0, 1)). Here zeta = z - mu and gamma = mu d. The results do not include the factor e^{-zeta^2/2} (grid.md,
// section 6.3).
template <int N>
TIGHTDP_VINLINE void integrate_gaussian_cell(Vec zeta, Vec d, Vec gamma, Vec* s, Vec* t) {
    Vec sum_s{}, sum_t{};
    for (int j = 0; j < N; ++j) {
        const Vec tau = d * Rule<N>::v[j];
        const Vec x = gamma * Rule<N>::v[j];
        const Vec e = Rule<N>::w[j] * loss_cell_exp_minus(tau * (zeta + 0.5 * tau));
        const Vec less = x * mean_exp_minus_over_loss_cell(x);
        sum_s += e * (1.0 - less);
        sum_t += e * less;
    }
    constexpr double kInvSqrt2Pi = 0.39894228040143267794;
    *s = sum_s * (d * kInvSqrt2Pi);
    *t = sum_t * (d * kInvSqrt2Pi);
}

}  // namespace

double compute_gaussian_loss_cells(double mu, const double* z, std::size_t count, double* s, double* t,
                                   double* log_scale, double* rel, double* bend, double* reach) {
    Vec widest{};
    for (std::size_t i = 0; i < count; i += kLanes) {
        const Vec left = load(z + i), zeta = left - mu;
        const Vec d = load(z + i + 1) - left;
        // The reach of the cell. Its powers bound the derivatives that enter the quadrature error (grid.md, section
        // 6.3).
        const Vec sum = d * (abs(zeta) + mu + d + 3.2);
        const Vec a = select((Mask)(sum < 1e300), sum, splat(1e300));  // 1e300 also if the sum is NaN
        store(reach + i, a);
        widest = max(widest, a);
    }
    double most = 0;
    for (int j = 0; j < kLanes; ++j) most = widest[j] > most ? widest[j] : most;
    for (std::size_t i = 0; i < count; i += kLanes) {
        const Vec left = load(z + i), zeta = left - mu;
        const Vec d = min(load(z + i + 1) - left, splat(0.1));
        const Vec gamma = min(mu * d, splat(0.3));
        // The caller recomputes cells that are too wide for the rule. For these cells, this code must only avoid
        // overflow.
        const Vec clamped = min(max(zeta, splat(-3.0) / d), splat(3.0) / d);
        Vec ms, mt;
        if (most <= kGaussianReach3)
            integrate_gaussian_cell<3>(clamped, d, gamma, &ms, &mt);
        else
            integrate_gaussian_cell<5>(clamped, d, gamma, &ms, &mt);
        store(s + i, ms);
        store(t + i, mt);
        const Vec half = 0.5 * zeta * zeta;
        store(log_scale + i, -half);
        store(rel + i, (24.0 + 6.0 * half) * 0x1p-53);
        // The log density log(dQ/dX), for X = e^y at the loss y, has the derivative -(z + mu) with respect to z.
        store(bend + i, d * (abs(left + mu) + d));
    }
    return most;
}

}  // namespace tightdp::TIGHTDP_ISA
