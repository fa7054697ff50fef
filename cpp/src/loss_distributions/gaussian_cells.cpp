// The privacy loss distribution of Gaussian noise: Y = mu z - mu^2/2. The output z has the distribution P = N(mu, 1) on
// one of two neighbouring data sets, and Q = N(0, 1) on the other. mu is the sensitivity divided by the standard
// deviation of the noise (grid.md, section 6.3).
#include <algorithm>
#include <cmath>

#include "cell_loops.simd.hpp"
#include "loss_distribution.hpp"
#include "runtime/work_budget.hpp"
#include "tightdp/special/mills.hpp"
#include "tightdp/special/normal.hpp"

namespace tightdp::grid {
namespace {

// A sketch is a list of coarse cells, from which cumulants are estimated (Density::list_loss_sketch_edges). It ends at
// this distance from the mean, in standard deviations. Densities beyond are below e^-745 and underflow.
constexpr double kFar = 39;
// Distance between the edges of a sketch, in standard deviations.
constexpr double kStep = 0.1;
// Largest number of pieces into which a cell of losses is split if the cell is too wide for a quadrature rule. This
// number of pieces takes a few milliseconds.
constexpr std::int64_t kMostPieces = 1 << 17;
// Exponent below which an exponential underflows to 0, even if the exponent has a rounding error.
constexpr double kNothing = -760;
// Units of work (runtime/work_budget.hpp) for one piece of a cell, and for all other work on a cell or a tail.
constexpr std::int64_t kPieceUnits = 20, kWideUnits = 100;
// Least length of an interval whose normal mass is computed as a difference of two tails. At this length, the smaller
// tail is at most 0.62 times the larger one.
constexpr double kLong = 0.5;

// Returns ln P(Z < z) for a standard normal variable Z.
LogMass log_gaussian_cell_mass_below(double z) {
    if (z > -30) return {std::log(0.5 * std::erfc(-z * kInvSqrt2)), u * (8 + 2 * z * z)};
    // The series is phi(z)/|z| (1 - 1/z^2 + 3/z^4 - ...). Its error is below the first term that is left out
    // (Abramowitz and Stegun 26.2.12).
    const double r = 1 / (z * z);
    const double series = 1 + r * (-1 + r * (3 + r * (-15 + r * 105)));
    return {-0.5 * z * z - kLogSqrt2Pi - std::log(-z) + std::log(series),
            945 * r * r * r * r * r + u * (8 + 2 * z * z)};
}

// Returns the smallest square of a number in an interval.
double least_square_in_gaussian_cell(double a, double b) {
    return a <= 0 && b >= 0 ? 0 : std::min(a * a, b * b);
}

// The mass of N(0, 1) on an interval, divided by e^{-at^2 / 2}, where `at` is the point of the interval nearest to 0.
struct ScaledMass {
    double mass, rel, at;
};

// Returns the mass of [a, b]. Precondition: b - a >= kLong (grid.md, section 6.3).
ScaledMass measure_long_gaussian_cell(double a, double b) {
    const auto tail = [](double x) { return x < 40 ? normal_tail(x) : 0; };
    if (a < 0 && b > 0) return {1 - tail(b) - tail(-a), 128 * u, 0};
    if (b <= 0) {
        const ScaledMass mirrored = measure_long_gaussian_cell(-b, -a);
        return {mirrored.mass, mirrored.rel, b};
    }
    const double fall = 0.5 * (b - a) * (b + a);
    const double less = fall < -kNothing ? std::exp(-fall) * mills_ratio(b) : 0;
    return {kInvSqrt2Pi * (mills_ratio(a) - less), 64 * u, a};
}

class Gaussian final : public Density {
  public:
    explicit Gaussian(double mu) : mu_(mu) {}

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        alignas(64) double z[CellBlock::kCells + 8], reach[CellBlock::kCells];
        for (std::size_t i = 0; i <= count; ++i) z[i] = gaussian_output_at_loss(edges[i]);
        const std::size_t padded = (count + 7) / 8 * 8;
        for (std::size_t i = count + 1; i <= padded; ++i) z[i] = z[count];
        const double most = TIGHTDP_SELECT_SIMD(compute_gaussian_loss_cells)(mu_, z, padded, out.s, out.t,
                                                                             out.log_scale, out.rel, out.bend, reach);
        if (most > kGaussianReach5)
            for (std::size_t i = 0; i < count; ++i)
                if (reach[i] > kGaussianReach5) compute_wide_gaussian_cell(z[i], z[i + 1], i, out);
        // The slack covers the rounding of edges / mu, of mu / 2 and of mu itself. An error dz of an output is an error
        // mu dz of a loss.
        const double largest = std::max(std::abs(edges[0]), std::abs(edges[count]));
        out.slack = larger_loss_distribution_error(out.slack, 6 * u * (largest + mu_ * mu_));
    }

    Left measure_losses_below(double y) const override {
        const double z = gaussian_output_at_loss(y);
        return {log_gaussian_cell_mass_below(z - mu_), log_gaussian_cell_mass_below(z)};
    }

    Right measure_losses_above(double y) const override {
        CellBlock block;
        compute_wide_gaussian_cell(gaussian_output_at_loss(y), kInfinity, 0, block);
        const auto log_of = [&](double x) { return x > 0 ? block.log_scale[0] + std::log(x) : -kInfinity; };
        return {{log_of(block.s[0]), block.rel[0]}, {log_of(block.t[0]), block.rel[0]}};
    }

    double largest_finite_loss() const override { return kInfinity; }

    std::vector<double> list_loss_sketch_edges() const override {
        // Edges are a tenth of a standard deviation apart. This suffices to estimate cumulants
        // (Density::list_loss_sketch_edges) to a few percent. The edges surround the mode of Q on the left and the mode
        // of P on the right. If the two modes are far apart, there is a gap between them.
        std::vector<double> edges;
        const auto add = [&](double from, double to) {
            const std::int64_t n = static_cast<std::int64_t>((to - from) / kStep);
            for (std::int64_t i = 0; i <= n; ++i) {
                const double share = static_cast<double>(i) / static_cast<double>(n);
                edges.push_back(mu_ * (from + (to - from) * share) - 0.5 * mu_ * mu_);
            }
        };
        const bool far = mu_ > 2 * kFar;
        add(-kFar, far ? kFar : kFar + mu_);
        if (far) add(mu_ - kFar, mu_ + kFar);
        return edges;
    }

  private:
    // Returns the output z at which the loss is y. Cells and tails must use the same rounded output (grid.md, section
    // 6.7).
    double gaussian_output_at_loss(double y) const { return y * inverse_ + half_; }

    // The part [first, last] of an interval [z0, z1] of outputs that holds nearly all normal mass. For each mean from
    // low_mean to high_mean, less than e^-42 of the mass in the interval lies outside of this part.
    struct Reach {
        double first, last;
        std::int64_t pieces = -1;  // number of pieces that are narrow enough for the rule of 5 nodes, or -1 if too many

        Reach(double z0, double z1, double low_mean, double high_mean, double mu) {
            const double left = std::min(z1, low_mean) - low_mean, right = std::max(z0, high_mean) - high_mean;
            first = std::max(z0, low_mean + left - 60 / (6 - left));
            last = std::min(z1, high_mean + right + 60 / (6 + right));
            const double finest = std::max(std::abs(first - high_mean), std::abs(last - high_mean)) + mu + 3.7;
            const double wanted = std::ceil((last - first) * finest / (0.9 * kGaussianReach5));
            if (wanted <= kMostPieces) pieces = std::max(std::int64_t{1}, static_cast<std::int64_t>(wanted));
        }
    };

    // Calls visit(z, s, t, rel, log_scale) for each piece of an interval. s and t are the two masses of the piece
    // (CellBlock in loss_distribution.hpp) for the pair (N(mean, 1), N(mean - mu, 1)).
    template <class Visit>
    static void visit_gaussian_cell_pieces(const Reach& reach_, double mu, double mean, Visit visit) {
        constexpr std::int64_t kBlock = 64;
        const double step = (reach_.last - reach_.first) / static_cast<double>(reach_.pieces);
        alignas(64) double z[kBlock + 8], shifted[kBlock + 8], ps[kBlock], pt[kBlock], pl[kBlock], rel[kBlock],
            bend[kBlock], reach[kBlock];
        work::spend(kPieceUnits * reach_.pieces);
        for (std::int64_t p = 0; p < reach_.pieces; p += kBlock) {
            const std::int64_t here = std::min(kBlock, reach_.pieces - p), padded = (here + 7) / 8 * 8;
            for (std::int64_t i = 0; i <= padded; ++i) {
                z[i] = reach_.first + step * static_cast<double>(std::min(p + i, reach_.pieces));
                shifted[i] = z[i] - (mean - mu);
            }
            TIGHTDP_SELECT_SIMD(compute_gaussian_loss_cells)(mu, shifted, static_cast<std::size_t>(padded), ps, pt, pl,
                                                             rel, bend, reach);
            for (std::int64_t i = 0; i < here; ++i) visit(z[i], ps[i], pt[i], rel[i], pl[i]);
        }
    }

    // Computes the masses s and t (CellBlock) of the cell of outputs [z0, z1] as sums over its parts (grid.md, section
    // 6.3). The outputs whose losses exceed the loss at z0 by at most 1 are cut into pieces with masses s' and t'. Let
    // w be the loss at the left end of a piece, minus the loss at z0. The piece adds e^{-w} s' to s, and
    // (1 - e^{-w}) (s' + t') + e^{-w} t' to t. The outputs further right are one part. Let p be its P-mass, and let q
    // be its Q-mass times e^{loss at z0}. This part adds q to s, and p - q to t. The difference loses few digits,
    // because q is at most p / e there.
    void compute_wide_gaussian_cell(double z0, double z1, std::size_t at, CellBlock& out) const {
        work::spend(kWideUnits);
        const double near = std::min(z1, z0 + 1 / mu_);
        const Reach whole(z0, near, 0, mu_, mu_);
        const bool beyond = near < z1, long_ = z1 - near >= kLong;
        const Reach p_side(near, z1, mu_, mu_, 0), q_side(near, z1, 0, 0, 0);
        if (whole.pieces < 0 || (beyond && !long_ && (p_side.pieces < 0 || q_side.pieces < 0))) {
            // s and t may each be anything from 0 to the P-mass below z1 or above z0, whichever is smaller.
            const double most =
                std::min(log_gaussian_cell_mass_below(z1 - mu_).log, log_gaussian_cell_mass_below(mu_ - z0).log) + 1e-9;
            out.put_loss_cell(at, {0.5, 0.5, std::min(0.0, most), 1, kInfinity});
            return;
        }
        const double scale =
            -0.5 * least_square_in_gaussian_cell(whole.first - mu_, (beyond ? p_side : whole).last - mu_);
        double s = 0, t = 0, s_error = 0, t_error = 0, pieces = 0;
        // Intervals whose terms all underflow are left out, because exponentials that underflow are slow.
        const auto visit_loss_pieces = [&](const Reach& reach, double log_most, double mu, double mean, auto visit) {
            if (log_most < kNothing) return;
            visit_gaussian_cell_pieces(reach, mu, mean, visit);
            pieces += static_cast<double>(reach.pieces);
        };
        visit_loss_pieces(whole, -0.5 * least_square_in_gaussian_cell(whole.first - mu_, whole.last - mu_) - scale, mu_,
                          mu_, [&](double z, double ps, double pt, double rel, double log) {
                              const double w = mu_ * (z - z0), e = std::exp(-w), weight = std::exp(log - scale);
                              const double more_s = weight * e * ps,
                                           more_t = weight * (-std::expm1(-w) * (ps + pt) + e * pt);
                              s += more_s;
                              t += more_t;
                              s_error += more_s * (rel + 3 * u * w);
                              t_error += more_t * (rel + 3 * u * w);
                          });
        if (beyond) {
            // The mass q is the integral of e^{loss at z0} times the density of Q. This product is
            // phi(z0 - mu) e^{-(z - z0) (z + z0) / 2}.
            const double at_left = -0.5 * (z0 - mu_) * (z0 - mu_) - scale;
            double p = 0, p_error = 0, q = 0, q_error = 0;
            const auto add_p = [&](double mass, double rel, double log) {
                const double more = mass * std::exp(log - scale);
                p += more;
                p_error += more * rel;
            };
            const auto add_q = [&](double mass, double rel, double z) {
                const double fall = 0.5 * (z - z0) * (z + z0), more = mass * std::exp(at_left - fall);
                q += more;
                q_error += more * (rel + 4 * u * (std::abs(at_left) + std::abs(scale) + std::abs(fall)));
            };
            if (long_) {
                const ScaledMass ahead = measure_long_gaussian_cell(near - mu_, z1 - mu_),
                                 behind = measure_long_gaussian_cell(near, z1);
                const double log = -0.5 * ahead.at * ahead.at;
                add_p(ahead.mass, ahead.rel + 4 * u * (std::abs(log) + std::abs(scale)), log);
                add_q(behind.mass, behind.rel, behind.at);
                pieces += 2;
            } else {
                visit_loss_pieces(
                    p_side, -0.5 * least_square_in_gaussian_cell(p_side.first - mu_, p_side.last - mu_) - scale, 0, mu_,
                    [&](double, double mass, double, double rel, double log) { add_p(mass, rel, log); });
                const double most =
                    at_left - 0.5 * (least_square_in_gaussian_cell(q_side.first, q_side.last) - z0 * z0);
                visit_loss_pieces(q_side, most, 0, 0,
                                  [&](double z, double mass, double, double rel, double) { add_q(mass, rel, z); });
            }
            s += q;
            s_error += q_error;
            t += std::max(0.0, p - q);
            t_error += p_error + q_error;
        }
        out.work += pieces;
        const double rel = std::max(s > 0 ? s_error / s : 0, t > 0 ? t_error / t : 0) + (2 * pieces + 64) * u;
        out.put_loss_cell(at, {s, t, scale, rel, kInfinity});
    }

    double mu_, inverse_ = 1 / mu_, half_ = 0.5 * mu_;
};

}  // namespace

LossDistributionPtr make_gaussian_losses(double mu) {
    auto losses = std::make_shared<LossDistribution>();
    losses->density = std::make_shared<Gaussian>(mu);
    return losses;
}

}  // namespace tightdp::grid
