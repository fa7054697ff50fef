// The inversion of one setting (sigma, q, steps) in one direction, certified, in the fixed memory of one team.
// The twin of contour/plan.cpp and contour/sum.cpp for a single subsampled Gaussian; docs/theory/contour.md, 1 to 7.
//
// Precondition: 1e-6 <= sigma <= 1e12, 0 < q < 1, steps >= 1 an integer, 0 < delta < 1, tolerance in [1e-13, 1e-2].
// Postcondition: lower <= epsilon(delta) <= upper where certified; else the setting is declined.
#pragma once

#include "aliasing.hpp"
#include "batch_decay.hpp"

namespace tightdp::contour {

struct BatchResult {
    bool certified = false;
    double lower = 0, upper = HUGE_VAL;
    long nodes = 0, abscissae = 0;
};

template <class Team>
class BatchInversion {
  public:
    TIGHTDP_HD BatchInversion(const Team& team, BatchMemory& memory, double sigma, double q, double steps, bool add,
                              double tolerance) noexcept
        : team_(team), m_(memory), part_(team, memory, sigma, q, steps, add), tolerance_(clamped(tolerance, 1e-13, 1e-2)) {}

    // by_delta: target is ln delta; else it is epsilon, and known_log_delta <= 0 gives ln delta of a first solution.
    TIGHTDP_HD_STAGE bool prepare(bool by_delta, double target, double known_log_delta = 1) noexcept;
    TIGHTDP_HD bool consistent() const noexcept { return w_.consistent; }
    TIGHTDP_HD_STAGE BatchResult solve_epsilon(double delta) const noexcept;
    TIGHTDP_HD_STAGE BatchResult solve_delta(double epsilon) const noexcept;

  private:
    struct Value {
        double delta, slope, error;  // error: of both sides; aliasing: of the lower one
        double aliasing;
        TIGHTDP_HD double below() const noexcept { return delta - aliasing - error; }
        TIGHTDP_HD double above() const noexcept { return delta + error; }
    };
    // The contour, as balance() moves and restores it.
    struct Where {
        Saddle saddle{};
        double c = 0, sd = 0, log_delta = 0;
        double left_c = 0, left_period = HUGE_VAL, right_c = 0, right_period = HUGE_VAL;
        double step = 0;
        bool consistent = false;
    };

    TIGHTDP_HD bool place(double c_most, double s_most, double log_inverse) noexcept {
        reach_ = c_most;
        return part_.place(c_most, s_most, log_inverse);
    }
    TIGHTDP_HD bool at(double c, Cumulants& out) noexcept {
        if (c > reach_ && !place(2 * c, 0, std::log(1e4 * (1 + part_.count())))) return false;
        out = part_.cumulants(c);
        return true;
    }
    TIGHTDP_HD_STAGE bool find_saddle(bool by_delta, double target, double c_first) noexcept;
    TIGHTDP_HD_STAGE bool choose_period() noexcept;
    TIGHTDP_HD_STAGE bool better_right(double widths) noexcept;
    TIGHTDP_HD_STAGE bool balance(bool by_delta, double target) noexcept;
    TIGHTDP_HD_STAGE bool choose_length(double log_needed) noexcept;
    TIGHTDP_HD_STAGE void transform() noexcept;
    TIGHTDP_HD_STAGE Value value(double epsilon) const noexcept;
    TIGHTDP_HD double log_tolerated() const noexcept { return w_.log_delta + std::log(0.25 * tolerance_); }
    TIGHTDP_HD double log_front() const noexcept { return w_.saddle.k.k0 - w_.c * w_.saddle.epsilon; }
    TIGHTDP_HD double lost() const noexcept { return log_front() - std::log(w_.c) - std::log1p(w_.c) - w_.log_delta; }

    const Team& team_;
    BatchMemory& m_;
    BatchPart<Team> part_;
    double tolerance_, reach_ = -1;
    Where w_;
    BatchLogMgf k_, k_left_, k_right_;
    long count_ = 0;
    double log_decay_ = 0;
};

template <class Team>
TIGHTDP_HD_STAGE bool BatchInversion<Team>::find_saddle(bool by_delta, double target, double c_first) noexcept {
    double low = 1e-13, high = 1e13, c = clamped(c_first, 1e-6, 1e6);
    for (int i = 0; i < 60; ++i) {
        Cumulants k;
        if (!at(c, k)) return false;
        w_.saddle = saddle_at(c, k);
        const double gap = by_delta ? w_.saddle.log_delta - target : target - w_.saddle.epsilon;
        (gap > 0 ? low : high) = c;
        const double step = gap / (c * saddle_curvature(c, k) * (by_delta ? c : 1));
        if (!(std::fabs(step) < HUGE_VAL)) return false;
        if (std::fabs(gap) * (by_delta ? 1 : c) < 0.02) return true;
        double next = c * std::exp(clamped(step, -1.5, 1.5));
        if (!(next > low && next < high)) next = std::sqrt(low * high);
        if (high / low < 1 + 1e-9) return true;
        c = next;
    }
    return true;
}

template <class Team>
TIGHTDP_HD_STAGE bool BatchInversion<Team>::better_right(double widths) noexcept {
    const double c = w_.c + widths / w_.sd;
    Cumulants k;
    if (!at(c, k)) return false;
    const double period = alias_period(k.k0 + log_kappa(c) - c * w_.saddle.epsilon, c - w_.c, log_tolerated());
    if (!(period < w_.right_period)) return false;
    w_.right_c = c;
    w_.right_period = period;
    return true;
}

template <class Team>
TIGHTDP_HD_STAGE bool BatchInversion<Team>::choose_period() noexcept {
    w_.left_c = w_.right_c = 0;
    w_.left_period = w_.right_period = HUGE_VAL;
    for (int i = 0; i < 5; ++i) {
        const double c = 0.15 * i * w_.c;
        double log_chernoff = 0;
        if (i > 0) {
            Cumulants k;
            if (!at(c, k)) return false;
            log_chernoff = k.k0 + log_kappa(c) - c * w_.saddle.epsilon;
        }
        const double period = alias_period(log_chernoff, w_.c - c, log_tolerated());
        if (period < w_.left_period) {
            w_.left_c = c;
            w_.left_period = period;
        }
    }
    constexpr double start = 4, ratio = 1.4, nearest = 1e-3, farthest = 30;
    better_right(start);
    bool rising = false;
    for (double widths = start * ratio; widths < farthest && better_right(widths); widths *= ratio) rising = true;
    for (double widths = start / ratio; !rising && widths > nearest; widths /= ratio)
        if (!better_right(widths) && w_.right_period < HUGE_VAL) break;
    const double period = larger(larger(w_.left_period, w_.right_period), w_.sd);
    w_.step = 2 * kPi / period;
    return period < HUGE_VAL;
}

template <class Team>
TIGHTDP_HD_STAGE bool BatchInversion<Team>::balance(bool by_delta, double target) noexcept {
    double period = w_.consistent ? 2 * kPi / w_.step : HUGE_VAL;
    const double most_lost = larger(8.0, lost() + 3);
    for (int i = 0; i < 40; ++i) {
        const Where before = w_;
        w_.c *= 0.85;
        Cumulants k;
        if (!at(w_.c, k) || !(k.k2 > 0)) return false;
        w_.saddle.k = k;
        w_.sd = std::sqrt(k.k2);
        if (!w_.consistent) {
            if (by_delta) w_.saddle.epsilon = normal_epsilon(w_.c, k, target);
            else w_.log_delta = smaller(0.0, normal_log_delta(w_.c, k, target));
        }
        const bool found = (lost() < most_lost || !(period < HUGE_VAL)) && choose_period();
        if (found && 2 * kPi / w_.step < period) {
            period = 2 * kPi / w_.step;
        } else if (period < HUGE_VAL) {
            w_ = before;
            break;
        }
    }
    return period < HUGE_VAL;
}

// As in contour/plan.cpp, one level a lane.
template <class Team>
TIGHTDP_HD_STAGE bool BatchInversion<Team>::choose_length(double log_needed) noexcept {
    constexpr double ratio = 1.25;
    constexpr int most_levels = 120;
    const double need = larger(log_needed, 3.0), count = part_.count();
    const BatchDecay<Team> decay(part_, w_.c, smaller(1e-4, 0.01 / count), need > 0.01 * count);
    double length = std::sqrt(2 * need) / w_.sd, s = length;
    for (int level = 0; level < most_levels; level += team_.size()) {
        if (length / w_.step > static_cast<double>(kBatchAbscissae)) return false;
        double mine = s;
        for (int i = 0; i < team_.lane(); ++i) mine *= ratio;
        const bool inside = count * decay.log_decay(mine, ratio * mine) >= need;
        const bool beyond = inside && count * decay.log_decay(mine, HUGE_VAL) >= need;
        const std::uint32_t insides = team_.votes(inside), beyonds = team_.votes(beyond);
        for (int i = 0; i < team_.size(); ++i, s *= ratio) {
            if (!(insides >> i & 1u)) {
                length = ratio * s;
            } else if (beyonds >> i & 1u) {
                const double steps = std::ceil(length / w_.step) + 1;
                if (!(steps <= static_cast<double>(kBatchAbscissae))) return false;
                count_ = static_cast<long>(steps);
                log_decay_ = -need;
                return true;
            }
        }
    }
    return false;
}

template <class Team>
TIGHTDP_HD_STAGE bool BatchInversion<Team>::prepare(bool by_delta, double target, double known_log_delta) noexcept {
    Cumulants k;
    if (!at(0.5, k)) return false;
    const double variance = larger(k.k2, 1e-300);
    const double guess = by_delta ? std::sqrt(2 * larger(0.5, -target) / variance)
                                  : larger(1.0, (target - k.k1) / variance);
    if (!find_saddle(by_delta, target, smaller(guess, 30.0))) return false;
    w_.log_delta = by_delta ? target : smaller(0.0, w_.saddle.log_delta);
    if (known_log_delta <= 0) w_.log_delta = known_log_delta;
    w_.sd = std::sqrt(w_.saddle.k.k2);
    if (!(w_.sd > 0)) return false;
    w_.c = w_.saddle.c;
    w_.consistent = known_log_delta <= 0 || (by_delta ? std::fabs(w_.saddle.log_delta - target) < 0.5
                                                      : std::fabs(w_.saddle.epsilon - target) * w_.c < 0.5);
    if (!by_delta) w_.saddle.epsilon = target;
    for (double widths = 2; w_.consistent && widths > w_.c * w_.sd; widths *= 0.8) {
        if (!at(widths / w_.sd, k) || k.k2 > 1.5 * w_.sd * w_.sd) continue;
        w_.c = widths / w_.sd;
        w_.sd = std::sqrt(k.k2);
        w_.saddle.k = k;
        break;
    }
    if (!choose_period()) return false;
    if ((!w_.consistent || w_.right_period > 2 * w_.left_period) && !balance(by_delta, target)) return false;
    if (!choose_length(log_front() + std::log(w_.sd / kPi) - log_tolerated())) return false;
    const double log_inverse = std::log(32 * (1 + part_.count()) / tolerance_) + larger(0.0, lost());
    if (!place(larger(w_.right_c, w_.c), static_cast<double>(count_) * w_.step, log_inverse)) return false;
    if (part_.largest_loss() * w_.step * static_cast<double>(count_) > 1e5) return false;
    k_ = part_.log_mgf(w_.c);
    k_left_ = w_.left_c > 0 ? part_.log_mgf(w_.left_c) : BatchLogMgf{};
    k_right_ = part_.log_mgf(w_.right_c);
    if (!(k_.upper() + k_left_.upper() + k_right_.upper() < HUGE_VAL)) return false;
    transform();
    return true;
}

// As in contour/sum.cpp.
template <class Team>
TIGHTDP_HD_STAGE void BatchInversion<Team>::transform() noexcept {
    const double rule_error = part_.products(w_.c, w_.step, count_), k = part_.count(), c = w_.c;
    constexpr double unit = kUnitRoundoff;
    for (long m = team_.lane(); m <= count_; m += team_.size()) {
        const double x = m > 0 ? m_.re[m] : 0, y = m > 0 ? m_.im[m] : 0, given = m > 0 ? m_.round[m] : 0;
        const double log_modulus = x > -0.5 ? 0.5 * std::log1p(x * (2 + x) + y * y)
                                            : std::log(larger(std::hypot(1 + x, y), 1e-300));
        const double angle = std::atan2(y, 1 + x), inverse = 1 / std::exp(log_modulus);
        const double log_size = k * log_modulus, turn = k * angle;
        const double sizes = std::fabs(log_size) + std::fabs(turn);
        const double rule = m > 0 ? k * std::log1p(rule_error * inverse) : 0;
        const double round = k * std::log1p(given * inverse) + unit * (16 * sizes + 8 + 16);
        // Divided by z (z + 1).
        const double s = w_.step * static_cast<double>(m);
        const double p = c * (c + 1) - s * s, r = s * (2 * c + 1), norm = p * p + r * r;
        const double size = std::exp(log_size), co = std::cos(turn), si = std::sin(turn);
        const double a = size * (co * p + si * r) / norm, b = size * (si * p - co * r) / norm;
        m_.re[m] = m == 0 ? 0.5 * a : a;
        m_.im[m] = m == 0 ? 0.0 : b;
        const double weight = (m == 0 ? 0.5 : 1.0) / std::sqrt(norm);
        m_.rule[m] = std::exp(log_size + rule + round) * -std::expm1(-rule) * weight;
        m_.round[m] = std::exp(log_size + round) * -std::expm1(-round) * weight;
    }
    team_.sync();
}

template <class Team>
TIGHTDP_HD_STAGE typename BatchInversion<Team>::Value BatchInversion<Team>::value(double epsilon) const noexcept {
    constexpr double unit = kUnitRoundoff;
    double sum = 0, slope = 0, rule = 0, round = 0, size = 0;
    for (long m = team_.lane(); m <= count_; m += team_.size()) {
        const double s = w_.step * static_cast<double>(m), angle = s * epsilon;
        const double co = std::cos(angle), si = std::sin(angle), re = m_.re[m], im = m_.im[m];
        const double real = re * co + im * si, imaginary = im * co - re * si;
        sum += real;
        slope += w_.c * real - s * imaginary;
        const double modulus = std::fabs(re) + std::fabs(im);
        size += modulus;
        rule += m_.rule[m];
        // 6 for the sine and cosine within 4 u, their products and the sum of the two (section 7).
        round += m_.round[m] + modulus * 3 * unit * (6 + std::fabs(angle));
    }
    sum = team_.sum(sum);
    slope = team_.sum(slope);
    rule = team_.sum(rule);
    round = team_.sum(round) + team_.sum(size) * unit * static_cast<double>(count_ + 4);
    const double front = w_.step / kPi * std::exp(k_.value - w_.c * epsilon);
    const double front_rounding = unit * (std::fabs(k_.value) + 3 * std::fabs(w_.c * epsilon) + 16);
    const double inflate = std::exp(k_.rule + k_.rounding + front_rounding);
    Value v;
    v.delta = front * sum;
    v.slope = -front * slope;
    const double truncation = std::exp(k_.upper() - w_.c * epsilon + log_decay_) /
                              (kPi * w_.step * static_cast<double>(count_)) * (1 + 1e-9);
    const double quadrature = (front * rule + std::fabs(v.delta) * std::expm1(k_.rule)) * inflate;
    const double rounding =
        (front * round + std::fabs(v.delta) * std::expm1(k_.rounding + front_rounding)) * inflate;
    v.error = truncation + quadrature + rounding;
    const double period = 2 * kPi / w_.step;
    v.aliasing =
        alias_excess(k_left_.upper() + log_kappa(w_.left_c) - w_.left_c * epsilon, w_.c - w_.left_c, period) +
        alias_excess(k_right_.upper() + log_kappa(w_.right_c) - w_.right_c * epsilon, w_.right_c - w_.c, period);
    return v;
}

template <class Team>
TIGHTDP_HD_STAGE BatchResult BatchInversion<Team>::solve_epsilon(double delta) const noexcept {
    double e = w_.saddle.epsilon;
    Value v = value(e);
    const double width = 1 / w_.c;
    for (int i = 0; i < 20; ++i) {
        if (!(v.delta > 0) || !(v.slope < 0)) return {};
        const double move = v.delta * std::log(v.delta / delta) / -v.slope;
        e += clamped(move, -20 * width, 20 * width);
        v = value(e);
        if (std::fabs(move) <= 1e-14 * std::fabs(e) || std::fabs(v.delta - delta) <= 1e-15 * delta) break;
        // Within a hundredth of the error there is nothing left to gain.
        if (std::fabs(v.delta - delta) <= 0.01 * v.error) break;
    }
    if (!(v.delta > 0) || !(v.slope < 0)) return {};
    BatchResult r;
    r.nodes = part_.nodes();
    r.abscissae = count_ + 1;
    const double gap = std::fabs(v.delta - delta), least = 4 * kUnitRoundoff * std::fabs(e);
    // Outwards until the certified sides have crossed delta.
    double out = 1.01 * (v.error + gap) / -v.slope + least;
    for (int i = 0; i < 50 && !r.certified; ++i, out *= 2) {
        r.upper = larger(0.0, e + out);
        r.certified = value(e + out).above() <= delta;
    }
    if (!r.certified) return {};
    out = 1.01 * (v.error + v.aliasing + gap) / -v.slope + least;
    bool found = false;
    for (int i = 0; i < 50 && !found; ++i, out *= 2) {
        r.lower = larger(0.0, e - out);
        found = value(e - out).below() >= delta;
    }
    if (!found) r.lower = 0;
    return r;
}

template <class Team>
TIGHTDP_HD_STAGE BatchResult BatchInversion<Team>::solve_delta(double epsilon) const noexcept {
    const Value v = value(epsilon);
    if (!(std::fabs(v.above()) < HUGE_VAL) || !(std::fabs(v.below()) < HUGE_VAL)) return {};
    BatchResult r;
    r.certified = true;
    r.nodes = part_.nodes();
    r.abscissae = count_ + 1;
    r.upper = clamped(v.above() * (1 + 4 * kUnitRoundoff), 2.2250738585072014e-308, 1.0);
    r.lower = clamped(v.below() * (1 - 4 * kUnitRoundoff), 0.0, 1.0);
    return r;
}

}  // namespace tightdp::contour
