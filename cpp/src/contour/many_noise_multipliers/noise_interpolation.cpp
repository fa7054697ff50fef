// Interpolation of ln M between noise multipliers (docs/theory/contour.md, section 11). M is the moment generating
// function of the privacy loss of one step. A level is a noise multiplier of the composition, and a node is a noise
// multiplier at which M is computed.
#include "noise_interpolation.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/compensated_sum.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Number of nodes from one reference to the next. The error bound needs M on an ellipse around the interval of noise
// multipliers. Cells divide this ellipse, and a reference is the node that stands for a cell
// (Interpolation::Reference). Neighbouring cells meet at the node halfway between their references.
constexpr std::size_t kStride = 4;
// Largest number of nodes of an interpolation.
constexpr std::size_t kMostNodes = 97;
// Smallest number of levels that are interpolated. Fewer levels are computed one by one.
constexpr std::size_t kFewest = 24;
// Values of rho that are tried in turn. rho is the sum of the half-axes of an ellipse, divided by half the distance of
// its foci. A larger rho needs fewer nodes.
constexpr double kRhos[] = {3.2, 2.7, 2.35, 2.1};
// Factors by which rho - 1 is multiplied for smaller ellipses. Smaller ellipses give better bounds at abscissae with a
// small |M(c + is)/M(c)|.
constexpr double kNarrower[] = {1, 0.65, 0.4, 0.22};
// Largest D that is allowed for a cell. D bounds the change of M between the cell's reference and the cell, relative to
// M(c) (near_level.hpp). At an abscissa c + is, D must be less than |M(c + is)/M(c)|, and so it must be well below 1.
constexpr double kMostApart = 0.85;
// Largest error, in nats, of a bound on ln M that is precise enough for the aliasing error.
constexpr double kLooseEnough = 0.1;
// Largest ratio of the noise multipliers in one interpolation, and smallest half-width of its interval divided by the
// middle of the interval. The smallest half-width keeps the nodes distinct.
constexpr double kWidest = 2, kLeastHalf = 1.0 / 1024;
// Units of work (runtime/work_budget.hpp) for the weight of a level at a node, and for one abscissa of a node.
constexpr std::int64_t kWeightUnits = 8, kAbscissaUnits = 60;

// Returns the number of nodes with which the error of interpolation is at most e^{-log_inverse}.
std::size_t count_interpolation_nodes(double rho, double log_inverse) {
    const double needed = (log_inverse + std::log(interpolation_error(rho, 1) * rho * 2)) / std::log(rho);
    return (static_cast<std::size_t>(needed) / kStride + 1) * kStride + 1;
}

// Returns -ln(1 - x), or infinity if x >= 0.99.
double interpolated_log_error(double x) {
    return x < 0.99 ? -std::log1p(-x) : HUGE_VAL;
}

}  // namespace

Box Interpolation::cell_box(double rho, const Reference& at) const {
    const double a = half_ * 0.5 * (rho + 1 / rho) * (1 + 1e-9);
    const double left = std::max(at.left, middle_ - a), right = std::min(at.right, middle_ + a);
    if (!(left > 0)) return {HUGE_VAL, HUGE_VAL};
    return noise_box(left, right, noise_ellipse_height_between(middle_, half_, rho, left, right), sigmas_[at.node]);
}

std::vector<NearLevel> Interpolation::measure_cells(double rho, double c) const {
    std::vector<NearLevel> near;
    for (const Reference& at : references_) {
        const Box whole = cell_box(rho, at);
        near.emplace_back(Pair{sigmas_[at.node], q_, direction_}, c, whole.real);
        if (!(near.back().bound_near_level_distance(whole) < kMostApart)) return {};
    }
    return near;
}

Interpolation::Ellipse Interpolation::make_ellipse(double rho, std::span<const NearLevel> near) const {
    Ellipse out{rho, interpolation_error(rho, static_cast<double>(sigmas_.size())), {}, 0, 0};
    for (std::size_t i = 0; i < near.size(); ++i) {
        const Box cell = cell_box(rho, references_[i]);
        out.distances.push_back(near[i].bound_near_level_distance(cell));
        out.largest_distance = std::max(out.largest_distance, out.distances.back());
        out.largest_log_factor = std::max(out.largest_log_factor, near[i].bound_near_level_log_factor(cell));
    }
    return out;
}

std::optional<Interpolation> Interpolation::make_interpolation(std::span<const Sampled> levels, Direction direction,
                                                               double c, double log_inverse) {
    const double low = levels.front().sigma, high = levels.back().sigma, q = levels.front().q;
    const double middle = 0.5 * (low + high);
    const double half = std::max({high - middle, middle - low, kLeastHalf * middle}) * (1 + 1e-12);
    for (const double rho : kRhos) {
        const std::size_t n = count_interpolation_nodes(rho, log_inverse);
        if (n > kMostNodes || n + kStride > levels.size()) continue;
        Interpolation made(middle, half, q, direction, c);
        for (std::size_t i = 0; i < n; ++i)
            made.sigmas_.push_back(middle -
                                   half * std::cos(kPi * (static_cast<double>(i) + 0.5) / static_cast<double>(n)));
        for (std::size_t i = 0; i + 1 < n; i += kStride)
            made.references_.push_back({i + kStride / 2, i == 0 ? 0 : made.sigmas_[i],
                                        i + kStride + 1 == n ? HUGE_VAL : made.sigmas_[i + kStride]});
        const std::vector<NearLevel> near = made.measure_cells(rho, c);
        if (near.empty()) continue;
        for (const double part : kNarrower) made.ellipses_.push_back(made.make_ellipse(1 + part * (rho - 1), near));
        for (const double sigma : made.sigmas_) made.nodes_.emplace_back(Pair{sigma, q, direction}, 1);
        made.weigh_nodes(levels);
        return made;
    }
    return {};
}

// Computes the weight of each node by compensated summation. The weight is the sum of count * L(sigma) over all levels,
// where L is the node's Lagrange polynomial.
void Interpolation::weigh_nodes(std::span<const Sampled> levels) {
    const std::size_t n = sigmas_.size();
    const double scale = 2 / half_;
    std::vector<double> inverse(n, 1.0), before(n), size(n, 0.0);
    std::vector<CompensatedSum> sum(n);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < n; ++k)
            if (k != i) inverse[i] *= (sigmas_[i] - sigmas_[k]) * scale;
        inverse[i] = 1 / inverse[i];
    }
    work::spend(kWeightUnits * static_cast<std::int64_t>(n * levels.size()));
    for (const Sampled& level : levels) {
        double product = level.count;
        for (std::size_t i = 0; i < n; ++i) {
            before[i] = product;
            product *= (level.sigma - sigmas_[i]) * scale;
        }
        product = 1;
        for (std::size_t i = n; i-- > 0;) {
            const double term = before[i] * product * inverse[i];
            sum[i] += term;
            size[i] += std::fabs(term);
            product *= (level.sigma - sigmas_[i]) * scale;
        }
    }
    const double each = kUnitRoundoff * (6 * static_cast<double>(n) + 20);
    for (std::size_t i = 0; i < n; ++i) {
        weights_.push_back(sum[i]);
        weight_errors_.push_back(each * size[i]);
    }
}

CertifiedLogMgf Interpolation::log_mgf() {
    return log_mgf(c_, ellipses_);
}

double Interpolation::log_mgf_upper(double c) {
    for (const Ellipse& at : ellipses_) {
        const std::vector<NearLevel> near = measure_cells(at.rho, c);
        if (near.empty()) continue;
        const Ellipse other = make_ellipse(at.rho, near);
        const CertifiedLogMgf k = log_mgf(c, {&other, 1});
        if (k.rule < kLooseEnough) return k.upper();
    }
    return HUGE_VAL;
}

CertifiedLogMgf Interpolation::log_mgf(double c, std::span<const Ellipse> ellipses) {
    CertifiedLogMgf total;
    double first = 0, spread = 0, steps = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const CertifiedLogMgf k = nodes_[i].log_mgf(c);
        const double w = weights_[i], size = std::fabs(w);
        if (i == 0) first = k.value;
        spread = std::max(spread, std::fabs(k.value - first) + k.rule + k.rounding);
        steps += w;
        total.value += w * k.value;
        total.rule += size * k.rule;
        total.rounding += size * k.rounding + weight_errors_[i] * std::fabs(k.value) +
                          kUnitRoundoff * (size * std::fabs(k.value) + 2 * std::fabs(total.value));
    }
    double least = HUGE_VAL;
    for (const Ellipse& e : ellipses)
        least =
            std::min(least, e.error * (2 * spread + e.largest_log_factor + interpolated_log_error(e.largest_distance)));
    total.rule += steps * (1 + 1e-9) * least;
    return total;
}

void Interpolation::add_to_ratios(std::vector<LogRatio>& ratios, double step) {
    const std::size_t count = ratios.size() - 1, n = nodes_.size();
    std::vector<double> re(count), im(count), rounding(count);
    struct Abscissa {
        LogRatio first, last;
        double spread = 0, distances[std::size(kNarrower)] = {};  // the distances are D / |M(z)/M(c)|
    };
    std::vector<Abscissa> seen(count);
    double steps = 0;
    auto reference = references_.begin();
    for (std::size_t i = 0; i < n; ++i) {
        work::spend(kAbscissaUnits * static_cast<std::int64_t>(count));
        const double rule = nodes_[i].compute_mgf_ratios(c_, step, static_cast<std::int64_t>(count), re.data(),
                                                         im.data(), rounding.data());
        const bool refers = reference != references_.end() && reference->node == i;
        const std::size_t r = static_cast<std::size_t>(reference - references_.begin());
        steps += weights_[i];
        for (std::size_t m = 0; m < count; ++m) {
            Abscissa& at = seen[m];
            const LogFactor log(re[m], im[m]);
            LogRatio one;
            one.re = log.re;
            one.im = log.im;
            if (i > 0) one.im += 2 * kPi * std::nearbyint((at.last.im - log.im) / (2 * kPi));
            one.rule = interpolated_log_error(rule * log.inverse);
            one.round = interpolated_log_error(rounding[m] * log.inverse) +
                        6 * kUnitRoundoff * (std::fabs(one.re) + std::fabs(one.im) + std::fabs(log.im - one.im));
            at.last = one;
            if (i == 0) at.first = one;
            at.spread = std::max(
                at.spread, std::fabs(one.re - at.first.re) + std::fabs(one.im - at.first.im) + one.rule + one.round);
            if (refers) {
                const double inverse = std::exp(one.rule + one.round) * log.inverse;
                for (std::size_t e = 0; e < ellipses_.size(); ++e)
                    at.distances[e] = std::max(at.distances[e], ellipses_[e].distances[r] * inverse);
            }
            ratios[m + 1].add_trapezoid_log_multiple(one, weights_[i], weight_errors_[i]);
        }
        if (refers) ++reference;
    }
    for (std::size_t m = 0; m < count; ++m) {
        double least = HUGE_VAL;
        for (std::size_t e = 0; e < ellipses_.size(); ++e)
            least = std::min(least,
                             ellipses_[e].error * (2 * seen[m].spread + interpolated_log_error(seen[m].distances[e]) +
                                                   interpolated_log_error(ellipses_[e].largest_distance)));
        ratios[m + 1].rule += steps * (1 + 1e-9) * least;
    }
}

void split_into_interpolations(std::span<const Sampled> levels, Direction direction, double c, double log_inverse,
                               std::vector<Interpolation>& out, std::vector<Sampled>& rest) {
    const auto keep = [&] { rest.insert(rest.end(), levels.begin(), levels.end()); };
    if (levels.size() < kFewest) return keep();
    const Sampled &first = levels.front(), &last = levels.back();
    const auto split_noise_levels_before = [&](auto before) {
        const auto at = std::partition_point(levels.begin(), levels.end(), before);
        const std::size_t head = static_cast<std::size_t>(at - levels.begin());
        split_into_interpolations(levels.first(head), direction, c, log_inverse, out, rest);
        split_into_interpolations(levels.subspan(head), direction, c, log_inverse, out, rest);
    };
    if (first.q != last.q) return split_noise_levels_before([&](const Sampled& level) { return level.q == first.q; });
    if (last.sigma <= kWidest * first.sigma) {
        if (auto made = Interpolation::make_interpolation(levels, direction, c, log_inverse))
            return out.push_back(std::move(*made));
        if (last.sigma <= (1 + kLeastHalf) * first.sigma) return keep();
    }
    const double middle = std::sqrt(first.sigma * last.sigma);
    split_noise_levels_before([&](const Sampled& level) { return level.sigma <= middle; });
}

}  // namespace tightdp::contour
