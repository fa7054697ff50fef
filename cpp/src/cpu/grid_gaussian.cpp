// The Gaussian loss law, Y = mu z - mu^2/2 with z ~ N(mu, 1) under P and N(0, 1) under Q (grid.md, section 6.3).
#include <algorithm>
#include <cmath>

#include "grid_kernels.hpp"
#include "grid_law.hpp"

namespace tightdp::grid {
namespace {

constexpr double u = kUnitRoundoff;
constexpr double kInvSqrt2 = 0.70710678118654752440;
constexpr double kHalfLog2Pi = 0.91893853320467274178;
constexpr double kInfinity = HUGE_VAL;
// Nothing below e^-745 is a double: where sketches end.
constexpr double kFar = 39;
// Pieces of one cell: some milliseconds.
constexpr long kMostPieces = 1 << 17;

// ln of P(Z < z).
LogMass log_below(double z) {
    if (z > -30) return {std::log(0.5 * std::erfc(-z * kInvSqrt2)), u * (8 + 2 * z * z)};
    // phi(z)/|z| (1 - 1/z^2 + 3/z^4 - ...), the error below the first term left out (Abramowitz and Stegun 26.2.12).
    const double r = 1 / (z * z);
    const double series = 1 + r * (-1 + r * (3 + r * (-15 + r * 105)));
    return {-0.5 * z * z - kHalfLog2Pi - std::log(-z) + std::log(series), 945 * r * r * r * r * r + u * (8 + 2 * z * z)};
}

class Gaussian final : public Density {
  public:
    explicit Gaussian(double mu) : mu_(mu) {}

    void cells(const double* edges, std::size_t count, CellBlock& out) const override {
        alignas(64) double z[CellBlock::kCells + 8], reach[CellBlock::kCells];
        const double half = 0.5 * mu_, inverse = 1 / mu_;
        for (std::size_t i = 0; i <= count; ++i) z[i] = edges[i] * inverse + half;
        const std::size_t padded = (count + 7) / 8 * 8;
        for (std::size_t i = count + 1; i <= padded; ++i) z[i] = z[count];
        const double most = TIGHTDP_SELECT_SIMD(grid_gaussian_cells)(mu_, z, padded, out.s, out.t, out.log_scale,
                                                                     out.rel, out.bend, reach);
        if (most > kGaussianReach5)
            for (std::size_t i = 0; i < count; ++i)
                if (reach[i] > kGaussianReach5) wide(z[i], z[i + 1], i, out);
        // edges/mu, mu/2 and mu itself are each rounded; in the loss that is this much (dy = mu dz).
        const double largest = std::max(std::abs(edges[0]), std::abs(edges[count]));
        out.slack = worst(out.slack, 6 * u * (largest + mu_ * mu_));
    }

    Left left_of(double y) const override {
        const double z = y / mu_ + 0.5 * mu_;
        return {log_below(z - mu_), log_below(z)};
    }

    Right right_of(double y) const override {
        CellBlock block;
        wide(y / mu_ + 0.5 * mu_, kInfinity, 0, block);
        const auto log_of = [&](double x) { return x > 0 ? block.log_scale[0] + std::log(x) : -kInfinity; };
        return {{log_of(block.s[0]), block.rel[0]}, {log_of(block.t[0]), block.rel[0]}};
    }

    double top() const override { return kInfinity; }

    std::vector<double> sketch() const override {
        // A tenth of a standard deviation: cumulants to a few percent, which moves a tilt by less.
        const double from = -kFar, to = kFar + mu_;
        const long n = static_cast<long>(std::clamp((to - from) / 0.1, 780.0, 4000.0));
        std::vector<double> edges(n + 1);
        for (long i = 0; i <= n; ++i) edges[i] = mu_ * (from + (to - from) * i / n) - 0.5 * mu_ * mu_;
        return edges;
    }

  private:
    // A cell in pieces that the rule of 5 nodes can reach, added up with positive terms alone:
    // t = sum over pieces of (1 - e^{-w}) (s' + t') + e^{-w} t', w the distance from the cell's left edge.
    void wide(double z0, double z1, std::size_t at, CellBlock& out) const {
        // Away from both modes the densities fall off faster than e^{-42} within `first` and `last`.
        const double inner_left = std::min(z1, 0.0), inner_right = std::max(z0, mu_);
        const double first = std::max(z0, inner_left - 60 / (6 - inner_left));
        const double last = std::min(z1, inner_right + 60 / (6 + inner_right - mu_));
        const double finest = std::max(std::abs(first - mu_), std::abs(last - mu_)) + mu_ + 3.7;
        const double wanted = std::ceil((last - first) * finest / (0.9 * kGaussianReach5));
        out.bend[at] = kInfinity;
        if (!(wanted <= kMostPieces)) {  // anything between nothing and all that lies on this side
            out.s[at] = out.t[at] = 0.5;
            out.log_scale[at] = std::min(0.0, std::min(log_below(last - mu_).log, log_below(mu_ - first).log) + 1e-9);
            out.rel[at] = 1;
            return;
        }
        const long pieces = std::max(1L, static_cast<long>(wanted));
        out.work += static_cast<double>(pieces);
        const double step = (last - first) / pieces;
        const double scale = -0.5 * nearest(first - mu_, last - mu_);
        double s = 0, t = 0, s_error = 0, t_error = 0;
        alignas(64) double z[64 + 8], ps[64], pt[64], pl[64], rel[64], bend[64], reach[64];
        for (long p = 0; p < pieces; p += 64) {
            const long here = std::min<long>(64, pieces - p);
            for (long i = 0; i <= 64; ++i) z[i] = first + step * std::min(p + i, pieces);
            TIGHTDP_SELECT_SIMD(grid_gaussian_cells)(mu_, z, 64, ps, pt, pl, rel, bend, reach);
            for (long i = 0; i < here; ++i) {
                const double w = mu_ * (z[i] - z0), e = std::exp(-w), weight = std::exp(pl[i] - scale);
                const double more_s = weight * e * ps[i];
                const double more_t = weight * (-std::expm1(-w) * (ps[i] + pt[i]) + e * pt[i]);
                s += more_s;
                t += more_t;
                s_error += more_s * (rel[i] + 3 * u * w);
                t_error += more_t * (rel[i] + 3 * u * w);
            }
        }
        out.s[at] = s;
        out.t[at] = t;
        out.log_scale[at] = scale;
        out.rel[at] = std::max(s > 0 ? s_error / s : 0, t > 0 ? t_error / t : 0) + (pieces + 64) * u;
    }

    // Least square over an interval.
    static double nearest(double a, double b) { return a <= 0 && b >= 0 ? 0 : std::min(a * a, b * b); }

    double mu_;
};

}  // namespace

LawPtr gaussian(double mu) {
    auto law = std::make_shared<Law>();
    law->density = std::make_shared<Gaussian>(mu);
    return law;
}

}  // namespace tightdp::grid
