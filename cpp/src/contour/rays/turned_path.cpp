// The nodes of a path, and bounds on the integrals beyond its ends (docs/theory/rays.md, sections 3 and 4). A path is
// the ray in the complex plane along which h = ln(1 + e^t) is integrated. B is the integrand at z = c, the start of the
// ray of z, and |B| is called the weight (turned_path.hpp).
#include "turned_path.hpp"

#include <algorithm>
#include <cmath>

#include "contour/mgf/quadrature.hpp"
#include "correlate.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Units of work (runtime/work_budget.hpp) for one node of a path.
constexpr std::int64_t kPathNodeUnits = 150;
// Largest |h| at which a path may begin, and smallest Re h at which it may end (rays.md, section 3.2).
constexpr double kSmallLoss = 0.1, kLargeLoss = 3;
// Smallest ln |h| of the first node. Squares of h must not be subnormal.
constexpr double kLeastLogLoss = -340;
// Logarithm of the largest weight that is computed.
constexpr double kMostExponent = 690;

// Returns a concave function q(rho) as `re`, and its slope as `im` (rays.md, section 3.2). Here rho is |h|. Right of
// the last node, |B| is bounded by e^{q(rho)} (1 + rho) times a constant.
Complex path_right_exponent(const LogRatioLaw& law, double gamma, double cosine, double sine, double rho) {
    const double along = rho * cosine - law.mean - 0.06, across = rho * sine + 0.06, s2 = law.sigma * law.sigma;
    const double q = -0.5 * s2 * (along * along - across * across) + gamma * rho * cosine;
    return {q, -s2 * (along * cosine - across * sine) + gamma * cosine};
}

}  // namespace

Complex path_expm1(double re, double im) {
    const double half = std::sin(0.5 * im);
    return {std::expm1(re) * std::cos(im) - 2 * half * half, std::exp(re) * std::sin(im)};
}

LogRatioLaw::LogRatioLaw(const Sampled& s) : sigma(s.sigma), q(s.q), count(s.count) {
    const double a = std::log(q), b = std::log1p(-q), half = 0.5 / (sigma * sigma);
    mean = a - b - half;
    mean_terms = std::abs(a) + std::abs(b) + half;
}

PathPoint path_point(const LogRatioLaw& law, double p, double cosine, double sine) {
    PathPoint point;
    const double rho = std::exp(p), h_re = rho * cosine, h_im = rho * sine;
    const Complex e = path_expm1(-h_re, -h_im);  // e = -(1 - e^-h), where Re(1 - e^-h) > 0
    const double norm = e.re * e.re + e.im * e.im;
    const double tau_re = h_re + 0.5 * std::log(norm), tau_im = h_im + std::atan2(-e.im, -e.re);
    const double v_re = tau_re - law.mean, half = 0.5 * law.sigma * law.sigma;
    point.rho = rho;
    point.h_re = h_re;
    point.h_im = h_im;
    point.v = std::hypot(v_re, tau_im);
    point.tau = std::hypot(tau_re, tau_im);
    point.slope = {-(h_re * e.re + h_im * e.im) / norm, -(h_im * e.re - h_re * e.im) / norm};
    point.gaussian = {-half * (v_re * v_re - tau_im * tau_im), -2 * half * v_re * tau_im};
    return point;
}

bool path_range(const LogRatioLaw& law, double gamma, double angle, double need, PathRange& range) {
    const double s2 = law.sigma * law.sigma, cosine = std::cos(angle), sine = std::sin(angle);
    // If ln |h| = law.mean - d, then |B h| is about e^{mean - d - s2 d^2/2 + s2 angle^2/2}.
    const double left = std::max(need + law.mean + std::log(gamma + 10) + 0.5 * s2 * angle * angle, 1.0);
    const double d = (std::sqrt(1 + 2 * s2 * left) - 1) / s2;
    range.left = std::min(law.mean - kSmallLoss - d, std::log(kSmallLoss));
    if (!(range.left > kLeastLogLoss)) return false;
    for (double rho = kLargeLoss / cosine + 0.1; rho < 1e4; rho *= 1.1) {
        const auto [q, slope] = path_right_exponent(law, gamma, cosine, sine, rho);
        range.right = std::log(rho);
        if (slope <= -1.01 && q <= -need && rho * cosine - law.mean > 0.1) return true;
    }
    return false;
}

PathTails path_tails(const LogRatioLaw& law, double gamma, double angle, const PathRange& range) {
    PathTails tails;
    const double sigma = law.sigma, low = std::exp(range.left), high = std::exp(range.right);
    const double d = law.mean - low - range.left, lift = sigma * (angle + low);
    const double left = 0.5 * (1 + low) * std::exp(gamma * low + 0.5 * (lift * lift - sigma * sigma * d * d));
    tails.left = {left * (1 + 1e-9), left * low * (1 + 1e-9)};
    const auto [q, slope] = path_right_exponent(law, gamma, std::cos(angle), std::sin(angle), high);
    const double right = 0.4 * sigma * std::exp(q) * (1 + 1e-9);
    tails.right = {right * (4.0 / 3) / -slope, right * ((1 + high) - 1 / slope) / -slope};
    return tails;
}

PathNorms turned_path_norms(const LogRatioLaw& law, double gamma, double angle, const PathRange& range) {
    const double cosine = std::cos(angle), sine = std::sin(angle), s2 = law.sigma * law.sigma;
    const double width = 0.05 / std::max(1.0, law.sigma), wider = std::exp(0.5 * width);
    const std::int64_t cells = static_cast<std::int64_t>(std::ceil((range.right - range.left) / width));
    work::spend(kPathNodeUnits * cells);
    const PathTails tails = path_tails(law, gamma, angle, range);
    PathNorms sum;
    for (std::int64_t i = 0; i < cells; ++i) {
        const PathPoint point = path_point(law, range.left + width * (static_cast<double>(i) + 0.5), cosine, sine);
        const double rho = point.rho * wider;
        const double slope = s2 * (point.v + 0.5 * width * (1 + rho)) * (1 + rho) + gamma * rho + 2;
        const double size = std::hypot(point.slope.re, point.slope.im) *
                            std::exp(point.gaussian.re + gamma * point.h_re + 0.5 * width * slope);
        sum.size += size;
        sum.first += size * rho;
    }
    const double unit = 0.4 * law.sigma * width * (1 + 1e-6);  // 0.4 is larger than 1 / sqrt(2 pi)
    return {unit * sum.size + tails.left.size + tails.right.size,
            unit * sum.first + tails.left.first + tails.right.first};
}

TurnedPath turned_path(const LogRatioLaw& law, double gamma, double angle, double turn, double step,
                       const PathRange& range) {
    TurnedPath path;
    path.first = static_cast<std::int64_t>(std::floor(range.left / step));
    const std::int64_t n = static_cast<std::int64_t>(std::ceil(range.right / step)) - path.first + 1;
    work::spend(kPathNodeUnits * n);
    path.re.resize(n);
    path.im.resize(n);
    path.tails = path_tails(law, gamma, angle,
                            {step * static_cast<double>(path.first), step * static_cast<double>(path.first + n - 1)});
    const double cosine = std::cos(angle), sine = std::sin(angle), sigma = law.sigma, s2 = sigma * sigma;
    const double unit = step * sigma / std::sqrt(2 * kPi);
    const double bend = std::max(1.0, 1 / (2.718 * -std::cos(turn)));
    const double sums = static_cast<double>(n / kChain + 1) + 90;
    double start = 0;  // the sum of the current chain of terms of path.start
    for (std::int64_t i = 0; i < n; ++i) {
        if (i % kChain == 0) {
            path.start += start;
            start = 0;
        }
        const double p = step * static_cast<double>(path.first + i);
        const PathPoint point = path_point(law, p, cosine, sine);
        const double rho = point.rho, v = point.v, lift_re = gamma * point.h_re, lift_im = gamma * point.h_im;
        if (!(std::max(lift_re, 0.0) + point.gaussian.re < kMostExponent)) {
            path.size = HUGE_VAL;
            return path;
        }
        const auto times_slope = [&](double re, double im, double phase) {
            const double c = std::cos(phase), s = std::sin(phase);
            const double x = re * c - im * s, y = re * s + im * c;
            return Complex{x * point.slope.re - y * point.slope.im, x * point.slope.im + y * point.slope.re};
        };
        const Complex b = times_slope(unit * std::exp(point.gaussian.re + lift_re), 0, point.gaussian.im + lift_im);
        path.re[i] = b.re;
        path.im[i] = b.im;
        // The terms of path.start are A (e^{gamma h} - 1), where A e^{gamma h} is step * B. Only their real parts are
        // added, because the expectation that path.start stands for is real.
        if (lift_re < 1) {
            const Complex e = path_expm1(lift_re, lift_im);
            const double a = unit * std::exp(point.gaussian.re);
            start += times_slope(a * e.re, a * e.im, point.gaussian.im).re;
        } else {
            start += b.re - times_slope(unit * std::exp(point.gaussian.re), 0, point.gaussian.im).re;
        }
        // The next lines bound the relative error of B in units of u = 2^-53 (rays.md, section 4.1).
        const double of_h = std::abs(p) + 12;
        const double of_v = (1 + rho) * of_h + 170 + 5 * (point.tau + rho) + 8 * law.mean_terms + v;
        const double alpha = s2 * v * of_v + 6 * s2 * v * v + (gamma * rho + 2) * of_h + 250;
        const double err = alpha + bend * of_h + sums;
        const double size = std::hypot(b.re, b.im);
        path.size += size;
        path.first_moment += size * rho;
        path.rounding += size * err;
        path.first_rounding += size * rho * err;
    }
    path.start += start;
    return path;
}

}  // namespace tightdp::contour
