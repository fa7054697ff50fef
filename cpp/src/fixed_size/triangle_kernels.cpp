// Bounds on the privacy profiles of triangles. A triangle in the unit disc stands for a dominating pair, and a cell is
// a set of triangles with similar angles (triangle_kernels.hpp). A menu is a list of kernels. A kernel is a dominating
// pair with masses at the losses (i - n) h, i = 0 .. 2n, called a lattice (kernel_iteration.hpp).
#include "triangle_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "runtime/work_budget.hpp"

namespace tightdp::fixed_size {
namespace {

constexpr double u = 0x1p-53;
// Factor by which lengths are enlarged. The increase exceeds their rounding errors.
constexpr double kLonger = 1 + 1e-11;
// Angles that separate the cells of triangles a, b, c in the unit disc (adaptive.md, section 3.2). Points a and b have
// the distance 2 cos(arc). The distance of c from the middle of a and b, measured along b - a, is cos(turn). At sigma =
// 1, q = .01 and 1,000 steps, bounds over these five by ten cells increase epsilon by .047. With half as many turns
// epsilon would increase by a further .024.
constexpr std::array<double, 6> kArcs{0, 0.1, 0.25, 0.45, 0.8, std::numbers::pi / 2};
constexpr std::array<double, 11> kTurns{0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.35, std::numbers::pi / 2};
// A privacy profile is computed on a line through the corner a and through b or c (Line). For the reversed pair, a and
// b are exchanged. If |c - a|^2 exceeds kAlongC |b - a|^2, the line runs through c, because the normal density with the
// mean c then matters more than the density with the mean b. Otherwise the line runs through b.
constexpr double kAlongC = 0.25;
// A lognormal variable e^{kappa z}, where z is standard normal, is replaced by a variable with finitely many values
// e^{kappa z} at nodes z (Spread). For |z| <= kOut, the distance of neighbouring nodes in kappa z is at most kBetween.
// A few nodes lie further out, and the mass beyond kFarthest is negligible.
constexpr double kBetween = 0.4, kOut = 4.5, kFarthest = 12;
// Largest distance between nodes of a privacy profile, in lattice points. The distance begins at 1, and doubles at the
// point whose index is 32 times the distance.
constexpr std::size_t kSparse = 4;
// bound_triangle_hinge() evaluates its bound at the output z with ln f(z) = kLeft, where f is the decreasing function
// that is described there. The bound is best at ln f(z) = 0. kLeft exceeds the rounding errors of ln f, and is too
// small to matter.
constexpr double kLeft = 1e-9;
// kFirst enlarges the curve of the first kernel of the menu, and kWithin the curves that are compared with it. kFirst
// is larger, so that a kernel that equals the first one up to rounding errors is left out of the menu.
constexpr double kFirst = 1 + 1e-9, kWithin = 1 + 1e-10;
constexpr std::int64_t kUnits = 150;  // units of work (runtime/work_budget.hpp) of bound_triangle_hinge()

double triangle_upper_tail(double z) {
    return 0.5 * std::erfc(z * (1 / std::numbers::sqrt2));
}

// Returns the probability that a standard normal variable lies between two points. The result is a difference of two
// upper tails or of two lower tails, so that small probabilities keep their digits.
double triangle_normal_mass(double a, double b) {
    return a + b < 0 ? triangle_upper_tail(-b) - triangle_upper_tail(-a)
                     : triangle_upper_tail(a) - triangle_upper_tail(b);
}

// A triangle a, b, c, as seen from the corner a or from the corner b.
struct Corner {
    double base;     // length |b - a|
    double squared;  // squared distance of c from the corner
    double inner;    // inner product of the two sides at the corner
};

// The values and probabilities of a discrete variable that is a mean-preserving spread of e^{kappa z - kappa^2/2},
// where z is a standard normal variable.
struct Spread {
    std::vector<double> value, weight;

    explicit Spread(double kappa) {
        if (!(kappa > 0)) {
            value = weight = {1};
            return;
        }
        std::vector<double> z{-kFarthest, -9, -7, -6, -5};
        const int pieces = static_cast<int>(std::ceil(2 * kOut / std::min(1.0, kBetween / kappa)));
        for (int i = 0; i <= pieces; ++i) z.push_back(kOut * (2.0 * i / pieces - 1));
        z.insert(z.end(), {5, 6, kFarthest});
        const double tail = triangle_upper_tail(kFarthest) * (1 + 1e-12);
        value = {0};
        weight = {tail};
        for (const double at : z) {
            value.push_back(std::exp(kappa * at - 0.5 * kappa * kappa));
            weight.push_back(0);
        }
        for (std::size_t j = 1; j + 1 < value.size(); ++j) {
            const double mass = triangle_normal_mass(z[j - 1], z[j]);
            const double mean = triangle_normal_mass(z[j - 1] - kappa, z[j] - kappa);
            const double share = std::clamp((mean - mass * value[j]) / (value[j + 1] - value[j]), 0.0, mass);
            weight[j] += mass - share;
            weight[j + 1] += share;
        }
        weight.back() += tail;
        for (double& w : weight) w *= 1 + 1e-12;
    }
};

// Returns an upper bound on the integral of max(A - s B - t C, 0) over an output z (adaptive.md, section 3.3). A is the
// standard normal density. B and C are the same density shifted to the left by b > 0 and by c >= 0.
double bound_triangle_hinge(double s, double t, double b, double c) {
    const double log_s = std::log(s), log_t = std::log(t);  // -infinity if the factor is 0
    const auto at_b = [&](double z) { return log_s - b * z - 0.5 * b * b; };
    const auto at_c = [&](double z) { return log_t - c * z - 0.5 * c * c; };
    const auto bound = [&](double z, double excess) {
        const double p = triangle_upper_tail(z), q = s * triangle_upper_tail(z + b), r = t * triangle_upper_tail(z + c);
        const double far = std::abs(z) + b + c;
        return std::max(p - q - r, 0.0) + (16 + 4 * far * far) * u * (p + q + r) + excess * p;
    };
    const bool falls_b = s > 0 && b > 0, falls_c = t > 0 && c > 0;
    if ((s >= 1 && !falls_b) || (t >= 1 && !falls_c)) return 0;
    if (!falls_b && !falls_c) return std::max(1 - s - t, 0.0) + 4 * u;
    // The function f(z) = s B/A + t C/A decreases in z. Its logarithm is convex, so the steps of Newton's method stay
    // left of the point where ln f is 0.
    double z = -HUGE_VAL;
    if (falls_b) z = std::max(z, log_s / b - 0.5 * b);
    if (falls_c) z = std::max(z, log_t / c - 0.5 * c);
    double log_f = HUGE_VAL, x = 0, y = 0;
    for (int i = 0; i < 60; ++i) {
        x = at_b(z), y = at_c(z);
        const double top = std::max(x, y), first = std::exp(x - top), second = std::exp(y - top);
        log_f = top + std::log(first + second);
        if (log_f > 0.5 * kLeft && log_f < 2 * kLeft) break;
        z += (log_f - kLeft) * (first + second) / (b * first + c * second);
    }
    const double terms =
        (b + c) * (std::abs(z) + b + c) + (s > 0 ? std::abs(log_s) : 0) + (t > 0 ? std::abs(log_t) : 0);
    const double rounding = 16 * u * (1 + terms);
    if (log_f > rounding && log_f < 2 * kLeft) return bound(z, std::expm1(log_f + rounding));
    return 1;  // the point was not found
}

// Upper bounds on the privacy profile of a kernel or of its reverse, at the losses i h for each i in a list `nodes`.
using Side = std::vector<double>;

// The line through the corner a and through b or c. The other one of b and c may lie off the line. Then its density
// ratio is multiplied by a lognormal variable of mean 1, which is replaced by a spread. For the corner b, a and b are
// exchanged.
struct Line {
    double b, c;  // distances of b and c from the corner, along the line, in standard deviations 1/mu of the noise
    Spread s, t;  // spreads for the density ratios of b and of c
};

Line choose_triangle_line(const Corner& corner, double mu) {
    const double b = mu * corner.base * kLonger, c2 = mu * mu * corner.squared * kLonger * kLonger;
    const double inner = mu * mu * std::max(corner.inner, 0.0) * kLonger * kLonger;
    const bool along_c = c2 > kAlongC * b * b;
    const double length = along_c ? std::sqrt(c2) * kLonger : b, other = inner / length * kLonger;
    const double across = (along_c ? b * b : c2) - other * other;
    if (!(across > 1e-12 * length * length)) {
        const double whole = std::sqrt(other * other + std::max(across, 0.0)) * kLonger;
        return along_c ? Line{whole, length, Spread(0), Spread(0)} : Line{length, whole, Spread(0), Spread(0)};
    }
    const Spread spread(std::sqrt(across) * kLonger);
    return along_c ? Line{other, length, spread, Spread(0)} : Line{length, other, Spread(0), spread};
}

Side bound_triangle_profile(const Corner& corner, double mu, double q, double h,
                            const std::vector<std::size_t>& nodes) {
    const Line line = choose_triangle_line(corner, mu);
    Side found;
    for (const std::size_t i : nodes) {
        work::spend(kUnits * static_cast<std::int64_t>(line.s.value.size() * line.t.value.size()));
        const double e = static_cast<double>(i) * h;
        const double s = std::exp(e) * (1 - 4 * u * (1 + e)), t = std::expm1(e) * (1 - q) / q * (1 - 8 * u * (1 + e));
        double value = 0;
        for (std::size_t j = 0; j < line.s.value.size(); ++j)
            for (std::size_t k = 0; k < line.t.value.size(); ++k) {
                const double one = bound_triangle_hinge(s * line.s.value[j], t * line.t.value[k], line.b, line.c);
                value += line.s.weight[j] * line.t.weight[k] * one;
            }
        found.push_back(q * value * (1 + 1e-13));
    }
    return found;
}

// Returns the indices of the losses at which profiles are evaluated. Between these losses, chords lie above the
// profiles. A chord is linear in e^eps between two points of a profile.
std::vector<std::size_t> list_triangle_nodes(std::size_t n, bool all) {
    std::vector<std::size_t> nodes;
    for (std::size_t i = 0, step = 1; i < n; i += step) {
        nodes.push_back(i);
        if (!all && i >= 32 * step && step < kSparse) step *= 2;
    }
    nodes.push_back(n);
    return nodes;
}

// The P-mass of a kernel at the middle one of three losses, and the rounding error of this mass. The kernel's privacy
// profile consists of chords through its values at the three losses. A negative mass means that the middle value is
// above the chord between the other two values.
struct Kink {
    double mass, rounding;
};

Kink measure_kernel_kink(const Side& s, std::size_t before, std::size_t at, std::size_t after,
                         const std::vector<std::size_t>& nodes, double h) {
    const auto gap = [&](std::size_t i, std::size_t j) { return static_cast<double>(nodes[j] - nodes[i]) * h; };
    const double left = -std::expm1(-gap(before, at)), right = after > at ? std::expm1(gap(at, after)) : HUGE_VAL;
    return {(s[before] - s[at]) / left + (s[after] - s[at]) / right,
            16 * u * ((s[before] + s[at]) / left + (s[after] + s[at]) / right)};
}

// Returns the indices of the values that lie on the convex hull of all values, up to rounding errors. A convex curve
// that is below all values is also below the chords between any of the values.
std::vector<std::size_t> find_kernel_hull(const Side& s, const std::vector<std::size_t>& nodes, double h) {
    std::vector<std::size_t> kept{0};
    for (std::size_t j = 1; j < s.size(); ++j) {
        while (kept.size() > 1 && measure_kernel_kink(s, kept[kept.size() - 2], kept.back(), j, nodes, h).mass < 0)
            kept.pop_back();
        kept.push_back(j);
    }
    return kept;
}

// Returns the kernel whose privacy profile consists of chords, with P-masses that are rounded up. As a function of x =
// e^loss, a chord is a line between two points of the profile. For x = e^loss >= 1 the chords go through the values
// `right`, and for x < 1 through the values `left` of the reversed pair. The values of `right` and `left` at x = 1
// bound the same delta, so the smaller value is used there.
Kernel join_kernel_sides(Side right, Side left, const std::vector<std::size_t>& nodes, std::size_t n, double h) {
    Kernel kernel{std::vector<double>(2 * n + 1), right.back()};
    const double start = right[0] = left[0] = std::min(right[0], left[0]);
    const std::vector<std::size_t> ahead = find_kernel_hull(right, nodes, h), behind = find_kernel_hull(left, nodes, h);
    const auto add_side = [&](const Side& s, const std::vector<std::size_t>& hull, bool mirrored) {
        for (std::size_t k = 1; k < hull.size(); ++k) {
            const std::size_t i = nodes[hull[k]];
            const Kink kink =
                measure_kernel_kink(s, hull[k - 1], hull[k], hull[std::min(k + 1, hull.size() - 1)], nodes, h);
            const double mass = std::max(kink.mass, 0.0) + kink.rounding, e = static_cast<double>(i) * h;
            kernel.mass[mirrored ? n - i : n + i] = mirrored ? mass * std::exp(-e) * (1 + 4 * u * (1 + e)) : mass;
        }
    };
    add_side(right, ahead, false);
    add_side(left, behind, true);
    const auto first = [&](const std::vector<std::size_t>& hull) { return static_cast<double>(nodes[hull[1]]) * h; };
    const double w = first(ahead), v = first(behind);
    const double middle =
        1 + (right[ahead[1]] - start) / std::expm1(w) + (std::exp(-v) * left[behind[1]] - start) / -std::expm1(-v);
    kernel.mass[n] = std::max(middle, 0.0) + 16 * u * (1 + 4 * start / std::min(w, v));
    return kernel;
}

// Returns upper bounds on the members of Corner over all triangles of a cell, for the corner a and for the corner b.
// Cells with turn = 0 also contain all c that lie further than 1 from the middle of a and b, measured along b - a.
std::array<Corner, 2> bound_triangle_corners(double arc, double arc_end, double turn, double turn_end) {
    const double w = std::cos(arc), least = std::cos(arc_end), d = std::cos(turn), nearest = std::cos(turn_end);
    const auto inner = [&](double half) { return 2 * half * (half - nearest); };
    const double ahead = turn > 0 ? d : 2 - w;
    const double far = turn_end < arc_end ? 4 * (1 - least * nearest) : 2 - 2 * std::cos(arc_end + turn_end);
    return {{{2 * w, 2 + 2 * std::cos(std::max(turn - arc_end, 0.0)), 2 * w * (w + ahead)},
             {2 * w, far, std::max(inner(w), inner(least))}}};
}

// Tells whether some mixture of the two profiles `first` lies above the two profiles `curves`. Each argument holds the
// profiles of a kernel and of its reverse.
bool is_kernel_below_mixture(const std::array<std::vector<double>, 2>& curves,
                             const std::array<std::vector<double>, 2>& first) {
    double least = 0, most = 1;  // range of the share of the first kernel in the mixture
    for (std::size_t i = 0; i < curves[0].size(); ++i) {
        const double gap = first[0][i] - first[1][i], need = curves[0][i] * kWithin - first[1][i];
        const double reversed = curves[1][i] * kWithin - first[1][i];
        // The share must satisfy share * gap >= need and (1 - share) * gap >= reversed.
        if (gap > 0) {
            least = std::max(least, need / gap);
            most = std::min(most, 1 - reversed / gap);
        } else if (need > gap || reversed > gap) {
            return false;
        }
    }
    return least <= most;
}

}  // namespace

std::vector<Kernel> list_triangle_kernels(double mu, double q, std::size_t n, double h) {
    std::vector<Kernel> menu;
    std::array<std::vector<double>, 2> first;
    for (std::size_t i = 0; i + 1 < kArcs.size(); ++i)
        for (std::size_t j = 0; j + 1 < kTurns.size(); ++j) {
            const auto nodes = list_triangle_nodes(n, i == 0 && j == 0);
            const auto corners = bound_triangle_corners(kArcs[i], kArcs[i + 1], kTurns[j], kTurns[j + 1]);
            const Side one = bound_triangle_profile(corners[0], mu, q, h, nodes),
                       other = bound_triangle_profile(corners[1], mu, q, h, nodes);
            Kernel kernel = join_kernel_sides(one, other, nodes, n, h),
                   reverse = join_kernel_sides(other, one, nodes, n, h);
            if (menu.empty()) {
                for (Kernel* k : {&kernel, &reverse}) {
                    for (double& mass : k->mass) mass *= kFirst;
                    k->infinity *= kFirst;
                }
                first = {compute_kernel_curve(kernel, h), compute_kernel_curve(reverse, h)};
            } else if (is_kernel_below_mixture({compute_kernel_curve(kernel, h), compute_kernel_curve(reverse, h)},
                                               first)) {
                continue;
            }
            menu.push_back(std::move(kernel));
            menu.push_back(std::move(reverse));
        }
    return menu;
}

std::vector<double> bound_fixed_size_deltas(double mu, double q, const Scale& scale, std::size_t count,
                                            std::size_t blocks, double beyond) {
    const std::vector<double> block =
        bound_worst_kernel_deltas(list_triangle_kernels(mu, q, scale.n, scale.h), scale, count, true, beyond);
    if (blocks == 1) return block;
    return bound_worst_kernel_deltas(
        {join_kernel_sides(block, block, list_triangle_nodes(scale.n, true), scale.n, scale.h)}, scale, blocks, true,
        beyond);
}

}  // namespace tightdp::fixed_size
