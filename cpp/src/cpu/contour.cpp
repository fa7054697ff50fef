#include "contour.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "contour_part.hpp"
#include "tightdp/contour/aliasing.hpp"
#include "tightdp/contour/quadrature.hpp"
#include "tightdp/contour/trivial.hpp"

namespace tightdp::contour {
namespace {

constexpr double kUnit = 0x1p-53;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Beyond these the grid engine is faster.
constexpr double kMaxAbscissae = 1 << 17;
constexpr double kMaxProducts = 3e7;

// The cumulants of the whole composition, plain Gaussians in closed form, on nodes that follow the abscissa.
class Cumulant {
  public:
    Cumulant(const Composition& composition) : mu2_(composition.gaussian_mu2) {
        for (const Sampled& s : composition.sampled) {
            parts_.emplace_back(s.sigma, s.q, s.count, composition.add);
            total_count_ += s.count;
        }
    }

    std::vector<Part>& parts() { return parts_; }
    double total_count() const { return total_count_; }
    double mu2() const { return mu2_; }

    bool place(double c_most, double s_most, double log_inverse, long most_nodes) {
        reach_ = c_most;
        for (Part& part : parts_)
            if (!part.place(c_most, s_most, log_inverse, most_nodes)) return false;
        return true;
    }

    // Extends coarse nodes as needed. False: too many nodes.
    bool at(double c, Cumulants& out) {
        if (c > reach_ && !place(2 * c, 0, std::log(1e4 * (1 + total_count_)), kMaxGuideNodes)) return false;
        out = {0.5 * mu2_ * c * (c + 1), mu2_ * (c + 0.5), mu2_};
        for (Part& part : parts_) {
            const Cumulants k = part.cumulants(c);
            out.k0 += k.k0;
            out.k1 += k.k1;
            out.k2 += k.k2;
        }
        return true;
    }

    // ln M(c) of the composition with its error, on the nodes placed last.
    CertifiedLogMgf certified(double c) {
        CertifiedLogMgf sum{0.5 * mu2_ * c * (c + 1), 0, 0};
        sum.rounding = 6 * kUnit * sum.value;
        for (Part& part : parts_) {
            const CertifiedLogMgf k = part.log_mgf(c);
            sum.value += k.value;
            sum.rule += k.rule;
            sum.rounding += k.rounding + 2 * kUnit * std::abs(sum.value);
        }
        return sum;
    }

  private:
    std::vector<Part> parts_;
    double mu2_, total_count_ = 0, reach_ = -1;
};

// The saddle point of G(c) e^{-c eps} and what follows from it.
struct Saddle {
    double c, epsilon, log_delta;
    Cumulants k;
};

Saddle saddle_at(double c, const Cumulants& k) {
    const double v = k.k2 + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
    const double epsilon = k.k1 - 1 / c - 1 / (1 + c);
    return {c, epsilon, k.k0 - c * epsilon - std::log(c) - std::log1p(c) - 0.5 * std::log(2 * kPi * v), k};
}

// Newton in ln c, kept in a bracket. By delta: ln delta falls in c at the rate c V. By epsilon: it grows at the rate V.
bool find_saddle(Cumulant& cumulant, bool by_delta, double target, double c_first, Saddle& best) {
    double low = 1e-13, high = 1e13, c = std::clamp(c_first, 1e-6, 1e6);
    for (int i = 0; i < 60; ++i) {
        Cumulants k;
        if (!cumulant.at(c, k)) return false;
        best = saddle_at(c, k);
        const double v = k.k2 + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
        const double gap = by_delta ? best.log_delta - target : target - best.epsilon;
        (gap > 0 ? low : high) = c;
        double step = gap / (c * v * (by_delta ? c : 1));
        if (!std::isfinite(step)) return false;
        // The abscissa only has to be good; Newton on the transform itself finds epsilon.
        if (std::abs(gap) * (by_delta ? 1 : c) < 0.02) return true;
        step = std::clamp(step, -1.5, 1.5);
        double next = c * std::exp(step);
        if (!(next > low && next < high)) next = std::sqrt(low * high);
        if (high / low < 1 + 1e-9) return true;
        c = next;
    }
    return true;
}

// e^{x^2} erfc(x), to some digits: it guides choices only.
double scaled_erfc(double x) {
    return x < 5 ? std::exp(x * x) * std::erfc(x) : (1 - 0.5 / (x * x) * (1 - 1.5 / (x * x))) / (x * std::sqrt(kPi));
}

// ln delta(epsilon) as if the law tilted to c were normal: right near the saddle point and usable away from it.
double normal_log_delta(double c, const Cumulants& k, double epsilon) {
    const double sd = std::sqrt(k.k2), m = (k.k1 - epsilon) / sd, a = (c * sd - m) / std::sqrt(2.0);
    if (a < -20) return 0;
    const double step = sd / std::sqrt(2.0), first = scaled_erfc(a);
    const double drop = step > 1e-4 ? first - scaled_erfc(a + step) : step * (2 / std::sqrt(kPi) - 2 * a * first);
    return k.k0 - c * epsilon - 0.5 * m * m + std::log(std::max(0.5 * drop, 1e-300));
}

// Its inverse, by bisection.
double normal_epsilon(double c, const Cumulants& k, double log_delta) {
    const double sd = std::sqrt(k.k2);
    double low = k.k1 - 30 * sd, high = k.k1 + 30 * sd;
    for (int i = 0; i < 50; ++i) {
        const double mid = 0.5 * (low + high);
        (normal_log_delta(c, k, mid) > log_delta ? low : high) = mid;
    }
    return 0.5 * (low + high);
}

// One side of the excess by aliasing: the auxiliary abscissa and the period it asks for.
struct AliasSide {
    double c = 0, period = kInfinity;
};

class Inversion {
  public:
    Inversion(const Composition& composition, double tolerance)
        : cumulant_(composition), tolerance_(std::clamp(tolerance, 1e-13, 1e-2)) {}

    // by_delta: target is ln delta; else it is epsilon, and known_log_delta may give ln delta of a first solution.
    Status prepare(bool by_delta, double target, double known_log_delta = 1);
    // Whether the abscissa is a saddle point. Where it is not the first solution says where to place it.
    bool consistent() const { return consistent_; }
    Result solve_epsilon(double delta);
    Result solve_delta(double epsilon);

  private:
    struct Value {
        double delta, slope;                                  // the finite trapezoid sum and its derivative
        double aliasing, truncation, quadrature, rounding;    // certified; aliasing is one-sided
        double below() const { return delta - aliasing - truncation - quadrature - rounding; }
        double above() const { return delta + truncation + quadrature + rounding; }
    };
    bool choose_period();
    bool balance(bool by_delta, double target);
    double lost() const;
    double log_tolerated() const { return log_delta_ + std::log(0.25 * tolerance_); }
    bool choose_length(double log_needed);
    void transform();
    Value value(double epsilon) const;
    Result fill(const Value& v, double unit) const;

    Cumulant cumulant_;
    double tolerance_;
    Saddle saddle_{};
    double c_ = 0, sd_ = 0, log_delta_ = 0;
    bool consistent_ = false;
    AliasSide left_, right_;
    CertifiedLogMgf k_{}, k_left_{}, k_right_{};
    double step_ = 0;
    long count_ = 0;
    double log_decay_ = 0;  // ln of the certified bound on |phi| past the last abscissa
    // h_m = (M(z)/M(c)) / (z (z + 1)), halved at m = 0, and the bounds on its rule and rounding errors.
    std::vector<double> re_, im_, rule_, round_;
};

bool Inversion::choose_period() {
    const double unit = 1 / sd_;
    left_ = right_ = {};
    for (double fraction : {0.0, 0.15, 0.3, 0.45, 0.6}) {
        const double c = fraction * c_;
        double log_chernoff = 0;
        if (c > 0) {
            Cumulants k;
            if (!cumulant_.at(c, k)) return false;
            log_chernoff = k.k0 + log_kappa(c) - c * saddle_.epsilon;
        }
        const double period = alias_period(log_chernoff, c_ - c, log_tolerated());
        if (period < left_.period) left_ = {c, period};
    }
    // The period asked for is a quasi-convex function of the auxiliary abscissa: walk to its minimum.
    const auto better_right = [&](double widths) {
        const double c = c_ + widths * unit;
        Cumulants k;
        if (!cumulant_.at(c, k)) return false;
        const double period = alias_period(k.k0 + log_kappa(c) - c * saddle_.epsilon, c - c_, log_tolerated());
        if (!(period < right_.period)) return false;
        right_ = {c, period};
        return true;
    };
    constexpr double start = 4, ratio = 1.4, nearest = 1e-3, farthest = 30;
    better_right(start);
    bool rising = false;
    for (double widths = start * ratio; widths < farthest && better_right(widths); widths *= ratio) rising = true;
    for (double widths = start / ratio; !rising && widths > nearest; widths /= ratio)
        if (!better_right(widths) && std::isfinite(right_.period)) break;
    const double period = std::max({left_.period, right_.period, sd_});
    step_ = 2 * kPi / period;
    return std::isfinite(period);
}

bool Inversion::choose_length(double log_needed) {
    // Levels of abscissae, a factor 1.25 apart; past the last level that decays too little, all do.
    constexpr double ratio = 1.25;
    constexpr int most_levels = 120;
    const double need = std::max(log_needed, 3.0);
    std::vector<Decay> decays(cumulant_.parts().size());
    for (std::size_t j = 0; j < decays.size(); ++j)
        cumulant_.parts()[j].build_decay(c_, std::min(1e-4, 0.01 / cumulant_.total_count()), need > 0.01 * cumulant_.parts()[j].count(), decays[j]);
    const auto decay_between = [&](double low, double high) {
        double total = 0.5 * cumulant_.mu2() * low * low;
        for (std::size_t j = 0; j < decays.size() && total < need; ++j)
            total += cumulant_.parts()[j].count() * decays[j].log_decay(low, high);
        return total;
    };
    double length = std::sqrt(2 * need) / sd_, s = length;
    for (int level = 0; level < most_levels; ++level, s *= ratio) {
        if (length / step_ > kMaxAbscissae) return false;
        if (decay_between(s, ratio * s) < need) {
            length = ratio * s;
            continue;
        }
        if (decay_between(s, kInfinity) >= need) {
            count_ = static_cast<long>(std::ceil(length / step_)) + 1;
            log_decay_ = -need;
            return true;
        }
    }
    return false;
}

// ln of |g(0)| over delta: the digits that the sum loses by cancellation, least at the saddle point.
double Inversion::lost() const {
    return saddle_.k.k0 - c_ * saddle_.epsilon - std::log(c_) - std::log1p(c_) - log_delta_;
}

// Moves the abscissa towards 0 while that shortens the period.
bool Inversion::balance(bool by_delta, double target) {
    double period = consistent_ ? 2 * kPi / step_ : kInfinity;
    // e^8 still leaves twelve digits.
    const double most_lost = std::max(8.0, lost() + 3);
    for (int i = 0; i < 40; ++i) {
        const Inversion before = *this;
        c_ *= 0.85;
        Cumulants k;
        if (!cumulant_.at(c_, k) || !(k.k2 > 0)) return false;
        saddle_.k = k;
        sd_ = std::sqrt(k.k2);
        if (!consistent_) {
            if (by_delta) saddle_.epsilon = normal_epsilon(c_, k, target);
            else log_delta_ = std::min(0.0, normal_log_delta(c_, k, target));
        }
        const bool found = (lost() < most_lost || !std::isfinite(period)) && choose_period();
        if (found && 2 * kPi / step_ < period) {
            period = 2 * kPi / step_;
        } else if (std::isfinite(period)) {
            *this = before;
            break;
        }
    }
    return std::isfinite(period);
}

Status Inversion::prepare(bool by_delta, double target, double known_log_delta) {
    // First guess: the Gaussian of equal variance.
    double variance = cumulant_.mu2(), c_first = 1;
    {
        Cumulants k;
        if (!cumulant_.at(0.5, k)) return Status::too_many_nodes;
        variance = std::max(k.k2, 1e-300);
        c_first = by_delta ? std::sqrt(2 * std::max(0.5, -target) / variance)
                           : std::max(1.0, (target - k.k1) / variance);
        c_first = std::min(c_first, 30.0);
    }
    if (!find_saddle(cumulant_, by_delta, target, c_first, saddle_)) return Status::too_many_nodes;
    log_delta_ = by_delta ? target : std::min(0.0, saddle_.log_delta);
    if (known_log_delta <= 0) log_delta_ = known_log_delta;
    sd_ = std::sqrt(saddle_.k.k2);
    if (!(sd_ > 0)) return Status::slow_decay;
    c_ = saddle_.c;
    // Where the law has a far lobe (small q, large sigma) the tilt jumps across it and no abscissa is a saddle point.
    consistent_ = known_log_delta <= 0 || (by_delta ? std::abs(saddle_.log_delta - target) < 0.5
                                                    : std::abs(saddle_.epsilon - target) * c_ < 0.5);
    if (!by_delta) saddle_.epsilon = target;
    // The pole at 0 is kept two widths away if that can be had without tilting into such a lobe (where the variance
    // jumps): nearer, the left tail of e^{cx} delta(x) is long.
    for (double widths = 2; consistent_ && widths > c_ * sd_; widths *= 0.8) {
        Cumulants k;
        if (!cumulant_.at(widths / sd_, k) || k.k2 > 1.5 * sd_ * sd_) continue;
        c_ = widths / sd_;
        sd_ = std::sqrt(k.k2);
        saddle_.k = k;
        break;
    }
    if (!choose_period()) return Status::too_many_nodes;
    if (!consistent_ || right_.period > 2 * left_.period)
        if (!balance(by_delta, target)) return Status::too_many_nodes;
    // Truncation: e^{K - c eps} rho / (pi S) within the tolerance, S at least one width.
    const double log_front = saddle_.k.k0 - c_ * saddle_.epsilon;
    if (!choose_length(log_front + std::log(sd_ / kPi) - log_tolerated())) return Status::slow_decay;
    const double log_inverse = std::log(32 * (1 + cumulant_.total_count()) / tolerance_) + std::max(0.0, log_front -
                               std::log(c_) - std::log1p(c_) - log_delta_);
    if (!cumulant_.place(std::max(right_.c, c_), count_ * step_, log_inverse, kMaxNodes)) return Status::too_many_nodes;
    double products = 0;
    for (const Part& part : cumulant_.parts()) {
        products += static_cast<double>(part.nodes()) * count_;
        if (part.largest_loss() * step_ * count_ > 1e5) return Status::slow_decay;
    }
    if (products > kMaxProducts) return Status::slow_decay;
    k_ = cumulant_.certified(c_);
    k_left_ = left_.c > 0 ? cumulant_.certified(left_.c) : CertifiedLogMgf{};
    k_right_ = cumulant_.certified(right_.c);
    if (!std::isfinite(k_.upper() + k_left_.upper() + k_right_.upper())) return Status::inaccurate;
    transform();
    return Status::certified;
}

void Inversion::transform() {
    const std::size_t n = count_;
    re_.assign(n + 1, 0);
    im_.assign(n + 1, 0);
    rule_.assign(n + 1, 0);
    round_.assign(n + 1, 0);
    // First the logarithm of M(z)/M(c), summed over the parts.
    std::vector<double> xi_re(n), xi_im(n), rounding(n);
    for (Part& part : cumulant_.parts()) {
        const double rule = part.products(c_, step_, count_, xi_re.data(), xi_im.data(), rounding.data());
        const double k = part.count();
        for (std::size_t m = 1; m <= n; ++m) {
            const double x = xi_re[m - 1], y = xi_im[m - 1];
            // Relative to |xi| where that is small, relative to |1 + xi| where that is.
            const double log_modulus = x > -0.5 ? 0.5 * std::log1p(x * (2 + x) + y * y)
                                                : std::log(std::max(std::hypot(1 + x, y), 1e-300));
            const double angle = std::atan2(y, 1 + x);
            re_[m] += k * log_modulus;
            im_[m] += k * angle;
            const double inverse = 1 / std::exp(log_modulus);
            rule_[m] += k * std::log1p(rule * inverse);
            round_[m] += k * std::log1p(rounding[m - 1] * inverse) +
                         kUnit * (6 * k * (std::abs(log_modulus) + std::abs(angle)) +
                                  2 * (std::abs(re_[m]) + std::abs(im_[m])));
        }
    }
    for (std::size_t m = 0; m <= n; ++m) {
        const double s = step_ * m;
        const double gauss_re = -0.5 * cumulant_.mu2() * s * s, gauss_im = cumulant_.mu2() * s * (c_ + 0.5);
        re_[m] += gauss_re;
        im_[m] += gauss_im;
        round_[m] += 8 * kUnit * (std::abs(gauss_re) + std::abs(gauss_im) + std::abs(re_[m]) + std::abs(im_[m]) + 1);
        // Divided by z (z + 1).
        const double p = c_ * (c_ + 1) - s * s, r = s * (2 * c_ + 1), norm = p * p + r * r;
        const double log_size = re_[m], size = std::exp(log_size), co = std::cos(im_[m]), si = std::sin(im_[m]);
        const double a = size * (co * p + si * r) / norm, b = size * (si * p - co * r) / norm;
        re_[m] = m == 0 ? 0.5 * a : a;
        im_[m] = m == 0 ? 0.0 : b;
        // |prod (a_j + e_j)^k - prod a_j^k| <= prod (|a_j| + |e_j|)^k - prod |a_j|^k, here e^{l + x} - e^l. The cross term
        // of the two kinds of error is charged to the rule.
        const double rule = rule_[m], round = round_[m] + 16 * kUnit, weight = (m == 0 ? 0.5 : 1.0) / std::sqrt(norm);
        rule_[m] = std::exp(log_size + rule + round) * -std::expm1(-rule) * weight;
        round_[m] = std::exp(log_size + round) * -std::expm1(-round) * weight;
    }
}

Inversion::Value Inversion::value(double epsilon) const {
    double sum = 0, slope = 0, rule = 0, round = 0, size = 0;
    const std::size_t n = count_;
    for (std::size_t m = 0; m <= n; ++m) {
        const double s = step_ * m, angle = s * epsilon;
        const double co = std::cos(angle), si = std::sin(angle);
        const double real = re_[m] * co + im_[m] * si;
        const double imaginary = im_[m] * co - re_[m] * si;
        sum += real;
        slope += c_ * real - s * imaginary;
        const double modulus = std::abs(re_[m]) + std::abs(im_[m]);
        size += modulus;
        rule += rule_[m];
        round += round_[m] + modulus * 3 * kUnit * (2 + std::abs(angle));
    }
    round += size * kUnit * static_cast<double>(n + 4);
    const double front = step_ / kPi * std::exp(k_.value - c_ * epsilon);
    Value v{};
    v.delta = front * sum;
    v.slope = -front * slope;
    const double front_rounding = kUnit * (std::abs(k_.value) + 3 * std::abs(c_ * epsilon) + 16);
    v.truncation = std::exp(k_.upper() - c_ * epsilon + log_decay_) / (kPi * step_ * count_) * (1 + 1e-9);
    // An error x of ln M(c) multiplies the sum and what is certified of it by at most e^x.
    const double inflate = std::exp(k_.rule + k_.rounding + front_rounding);
    v.quadrature = (front * rule + std::abs(v.delta) * std::expm1(k_.rule)) * inflate;
    v.rounding = (front * round + std::abs(v.delta) * std::expm1(k_.rounding + front_rounding)) * inflate;
    const double period = 2 * kPi / step_;
    v.aliasing =
        alias_excess(k_left_.upper() + log_kappa(left_.c) - left_.c * epsilon, c_ - left_.c, period) +
        alias_excess(k_right_.upper() + log_kappa(right_.c) - right_.c * epsilon, right_.c - c_, period);
    return v;
}

Result Inversion::fill(const Value& v, double unit) const {
    Result r;
    r.status = Status::certified;
    r.aliasing = v.aliasing * unit;
    r.truncation = v.truncation * unit;
    r.quadrature = v.quadrature * unit;
    r.rounding = v.rounding * unit;
    for (const Part& part : const_cast<Cumulant&>(cumulant_).parts()) r.nodes += part.nodes();
    r.abscissae = count_ + 1;
    return r;
}

Result Inversion::solve_epsilon(double delta) {
    double e = saddle_.epsilon;
    Value v = value(e);
    const double width = 1 / c_;
    for (int i = 0; i < 20; ++i) {
        // Newton on ln delta, which is nearly linear in epsilon.
        if (!(v.delta > 0) || !(v.slope < 0)) return {};
        const double move = v.delta * std::log(v.delta / delta) / -v.slope;
        e += std::clamp(move, -20 * width, 20 * width);
        v = value(e);
        if (std::abs(move) <= 1e-14 * std::abs(e) || std::abs(v.delta - delta) <= 1e-15 * delta) break;
    }
    if (!(v.delta > 0) || !(v.slope < 0)) return {};
    const double error = v.aliasing + v.truncation + v.quadrature + v.rounding;
    Result r = fill(v, 1 / -v.slope);
    // Outwards until the certified sides have crossed delta.
    double out = 1.01 * (error + std::abs(v.delta - delta)) / -v.slope + 4 * kUnit * std::abs(e);
    bool found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.upper = e + out;
        found = value(r.upper).above() <= delta;
    }
    if (!found) return {};
    out = 1.01 * (error + std::abs(v.delta - delta)) / -v.slope + 4 * kUnit * std::abs(e);
    found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.lower = e - out;
        found = value(r.lower).below() >= delta;
    }
    if (!found) r.lower = 0;
    r.upper = std::max(0.0, r.upper);
    r.lower = std::max(0.0, r.lower);
    return r;
}

Result Inversion::solve_delta(double epsilon) {
    const Value v = value(epsilon);
    Result r = fill(v, 1);
    if (!std::isfinite(v.above()) || !std::isfinite(v.below())) return {};
    r.upper = std::clamp(v.above() * (1 + 4 * kUnit), std::numeric_limits<double>::min(), 1.0);
    r.lower = std::clamp(v.below() * (1 - 4 * kUnit), 0.0, 1.0);
    return r;
}

Result invert(const Composition& composition, double tolerance, bool by_delta, double at) noexcept {
    try {
        Inversion inversion(composition, tolerance);
        Result r;
        r.status = inversion.prepare(by_delta, by_delta ? std::log(at) : at);
        if (r.status != Status::certified) return r;
        r = by_delta ? inversion.solve_epsilon(at) : inversion.solve_delta(at);
        if (inversion.consistent() || r.status != Status::certified) return r;
        const double epsilon = by_delta ? r.upper : at, log_delta = std::log(by_delta ? at : r.upper);
        Inversion second(composition, tolerance);
        if (second.prepare(false, epsilon, std::min(0.0, log_delta)) != Status::certified) return r;
        const Result better = by_delta ? second.solve_epsilon(at) : second.solve_delta(at);
        return better.status == Status::certified && better.upper - better.lower < r.upper - r.lower ? better : r;
    } catch (...) {  // memory: the caller turns to another engine
        return {};
    }
}

}  // namespace

Result epsilon(const Composition& composition, double delta, double tolerance) noexcept {
    // Total variation distances add up at most: delta(0) <= delta means epsilon = 0.
    double distance = std::erf(0.35355339059327376220 * std::sqrt(composition.gaussian_mu2)) * (1 + 1e-14);
    double most = composition.add && composition.gaussian_mu2 == 0 ? 0 : kInfinity;
    for (const Sampled& s : composition.sampled) {
        distance += s.count * total_variation(s.sigma, s.q) * (1 + 1e-14);
        most += s.count * largest_add_loss(s.q) * (1 + 1e-14);
    }
    if (distance <= delta) {
        Result zero;
        zero.status = Status::certified;
        return zero;
    }
    Result r = invert(composition, tolerance, true, delta);
    if (r.status != Status::certified || r.lower == 0) {
        // Where delta(0) <= delta the curve need not be followed to negative epsilon.
        const Result at_zero = contour::delta(composition, 0, tolerance);
        if (at_zero.status == Status::certified && at_zero.upper <= delta) {
            Result zero = at_zero;
            zero.lower = zero.upper = 0;
            return zero;
        }
    }
    r.upper = std::min(r.upper, most);
    return r;
}

Result delta(const Composition& composition, double epsilon, double tolerance) noexcept {
    if (epsilon < 0) {
        // Reversal: the other pair at -epsilon, where its delta is small, loses no digits (contour.md 6).
        Composition other = composition;
        other.add = !composition.add;
        Result r = invert(other, tolerance, false, -epsilon);
        if (r.status == Status::certified) {
            const double e = std::exp(epsilon), front = -std::expm1(epsilon), slack = 8 * kUnit;
            r.lower = std::clamp((front + e * r.lower) * (1 - slack), 0.0, 1.0);
            r.upper = std::clamp((front + e * r.upper) * (1 + slack), 0.0, 1.0);
            for (double* term : {&r.aliasing, &r.truncation, &r.quadrature, &r.rounding}) *term *= e;
            r.rounding += slack * r.upper;
            return r;
        }
    }
    return invert(composition, tolerance, false, epsilon);
}

}  // namespace tightdp::contour
