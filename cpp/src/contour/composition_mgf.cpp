// Chooses the length of the line z = c + is on which M is inverted, and the quadrature nodes of all parts. A part is a
// sampled Gaussian with its number of steps, and M is the moment generating function of the privacy loss
// (composition_mgf.hpp). Noise levels are the distinct noise multipliers, and a bin holds neighbouring levels
// (many_noise_multipliers/noise_bins.hpp).
#include "composition_mgf.hpp"

#include <algorithm>

#include "contour/tail_bound/minorant_tail.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Largest number of abscissae, the points z = c + is of the trapezoid sum. With more abscissae the grid engine is
// faster.
constexpr double kMaxAbscissae = 1 << 17;
// The decay is -ln |M(c + is)/M(c)|. Two methods give lower bounds on the decay: moved lines
// (tail_bound/moved_line.hpp), and minorants, densities below that of the loss (tail_bound/minorant.hpp). If moved
// lines find at least the fraction kSomeDecay of the needed decay but not all of it, minorants would not find all of it
// either, and are not tried.
constexpr double kSomeDecay = 0.3;
// Smallest number of parts whose noise levels are put in bins.
constexpr std::size_t kManyParts = 40;
// Approximate number of interpolation nodes for each bin.
constexpr double kNodesABin = 4;
// ln M at the two ends of a bin is computed with an error of e^-kLogInverseOfBins.
constexpr double kLogInverseOfBins = 20;
// The error of an interpolation may be e^kCoarser times the error e^{-log_inverse} that is allowed for a step.
constexpr double kCoarser = 4.5;
// Largest ratios of the largest to the smallest noise multiplier of a bin. Bins up to kWidestBin wide guide the choice
// of the line, and lose a thirtieth of the decay (contour.md, section 10). Bins up to kNarrowBin wide bound ln M of all
// levels by its values at their ends. This raises the bound on ln M of the composition by a fraction of a nat.
constexpr double kWidestBin = 1.03, kNarrowBin = 1.01;

// Finds an s with decay(s) >= need that is not much larger than the smallest such s. If there is no such s up to
// `reach`, the result is larger than `reach`. The decay grows about like s^2 at first, and then more and more slowly.
// `first` is the first s that is tried.
template <class DecayFrom>
double search_composition_line_length(double first, double need, double reach, const DecayFrom& decay) {
    double low = 0, high = HUGE_VAL, s = first;
    for (int i = 0; i < 40 && s <= reach; ++i) {
        const double found = decay(s);
        (found >= need ? high : low) = s;
        if (low == 0 || high < 1.03 * low) break;
        if (high < HUGE_VAL)
            s = std::sqrt(low * high);
        else
            s *= std::clamp(1.01 * std::pow(need / std::max(found, 1e-3 * need), 0.6), 1.03, 4.0);
        if (high == HUGE_VAL && s > reach && low < reach) s = reach;
    }
    return high;
}

// Returns an upper bound on the logarithm of the mean of M over a bin. `least` and `most` are ln M at the two ends. M
// is a convex function of 1 / sigma^2 (contour.md, section 10), and lies below its chord between the ends.
double bound_mean_composition_mgf(const NoiseBin& bin, double least, double most) {
    const auto at = [](double sigma) { return 1 / (sigma * sigma); };
    const double width = at(bin.low) - at(bin.high);
    const double part = width > 0 ? std::clamp((at(bin.middle) - at(bin.high)) / width, 0.0, 1.0) : 1.0;
    return least + std::log1p(part * std::expm1(most - least));
}

}  // namespace

CompositionMgf::CompositionMgf(const Composition& composition, bool groups, double most_products)
    : direction_(composition.direction), mu2_(composition.gaussian_mu2), most_products_(most_products) {
    for (const Sampled& s : composition.sampled) total_count_ += s.count;
    if (groups && direction_ != Direction::replace && composition.sampled.size() >= kManyParts) {
        levels_.assign(composition.sampled.begin(), composition.sampled.end());
        std::sort(levels_.begin(), levels_.end(),
                  [](const Sampled& a, const Sampled& b) { return a.q < b.q || (a.q == b.q && a.sigma < b.sigma); });
        bins_ = bin_noise_levels(levels_, kWidestBin);
        if (2 * bins_.size() > levels_.size()) bins_.clear();
    }
    // A guide is the level with the smallest noise of its bin. The aliasing error (inversion/aliasing.hpp) of the other
    // levels does not need a longer period.
    for (const NoiseBin& bin : bins_) guides_.emplace_back(Pair{bin.low, bin.q, direction_}, bin.count);
    if (bins_.empty())
        for (const Sampled& s : composition.sampled) parts_.emplace_back(Pair{s.sigma, s.q, direction_}, s.count);
}

std::int64_t CompositionMgf::node_count() const {
    std::int64_t all = 0;
    for (const SampledMgf& part : parts_) all += part.node_count();
    for (const Interpolation& some : interpolations_)
        for (const SampledMgf& node : some.nodes()) all += node.node_count();
    return all;
}

// Makes interpolations of levels for the abscissae c + is, and one part for each level that is not interpolated.
void CompositionMgf::arrange_levels(double c, double log_inverse) {
    interpolations_.clear();
    parts_.clear();
    std::vector<Sampled> rest;
    split_into_interpolations(levels_, direction_, c, log_inverse, interpolations_, rest);
    for (const Sampled& s : rest) parts_.emplace_back(Pair{s.sigma, s.q, direction_}, s.count);
}

bool CompositionMgf::estimate_cumulants(double c, Cumulants& out) {
    if (c > reach_) {
        reach_ = 2 * c;
        for (SampledMgf& part : list_composition_mgf_guides())
            if (!part.place_nodes(reach_, 0, std::log(1e4 * (1 + total_count_)), kMaxGuideNodes)) return false;
    }
    out = {0.5 * mu2_ * c * (c + 1), mu2_ * (c + 0.5), mu2_};
    for (SampledMgf& part : list_composition_mgf_guides()) {
        const Cumulants k = part.estimate_cumulants(c);
        out.k0 += k.k0;
        out.k1 += k.k1;
        out.k2 += k.k2;
    }
    return true;
}

CertifiedLogMgf CompositionMgf::sampled_log_mgf(double c) {
    CertifiedLogMgf sum;
    const auto add = [&](const CertifiedLogMgf& k) {
        sum.value += k.value;
        sum.rule += k.rule;
        sum.rounding += k.rounding + 2 * kUnitRoundoff * std::abs(sum.value);
    };
    for (SampledMgf& part : parts_) add(part.log_mgf(c));
    for (Interpolation& some : interpolations_) add(some.log_mgf());
    return sum;
}

CertifiedLogMgf CompositionMgf::certified_log_mgf(double c) {
    CertifiedLogMgf sum = sampled_log_mgf(c);
    const double plain = 0.5 * mu2_ * c * (c + 1);
    sum.value += plain;
    sum.rounding += kUnitRoundoff * (10 * plain + 2 * std::abs(sum.value));
    return sum;
}

double CompositionMgf::sampled_log_mgf_upper(double c) {
    if (interpolations_.empty()) return sampled_log_mgf(c).upper();
    double sum = 0;
    for (SampledMgf& part : parts_) sum += part.log_mgf(c).upper();
    for (Interpolation& some : interpolations_) sum += some.log_mgf_upper(c);
    if (sum < HUGE_VAL) return sum * (1 + 1e-12);
    sum = 0;
    for (const NoiseBin& bin : bin_noise_levels(levels_, kNarrowBin)) {
        double least, most;
        for (const auto& [sigma, k] : {std::pair{bin.high, &least}, std::pair{bin.low, &most}}) {
            SampledMgf end({sigma, bin.q, direction_}, 1);
            if (!end.place_nodes(c, 0, kLogInverseOfBins, kMaxGuideNodes)) return HUGE_VAL;
            *k = end.log_mgf(c).upper();
        }
        sum += bin.count * (direction_ == Direction::add ? most : bound_mean_composition_mgf(bin, least, most));
    }
    return sum * (1 + 1e-12);
}

// Returns the largest length of a line that keeps within the limits on abscissae and on products. There is one
// product for each node and abscissa.
double CompositionMgf::longest_line(const Plan& plan, double log_inverse) const {
    double s = kMaxAbscissae * plan.step;
    const std::vector<SampledMgf>& guides = bins_.empty() ? parts_ : guides_;
    for (; s > plan.step; s *= 0.8) {
        double nodes = 0;
        for (std::size_t j = 0; j < guides.size(); ++j)
            nodes += guides[j].count_nodes_needed(std::max(plan.right.c, plan.c), s, log_inverse) *
                     (bins_.empty() ? 1 : std::min(bins_[j].members, kNodesABin));
        if (nodes * (s / plan.step) <= most_products_) break;
    }
    return s;
}

Status CompositionMgf::choose_length(Plan& plan, double sd, double need, double log_inverse) {
    const double first = std::sqrt(2 * need) / sd, reach = this->longest_line(plan, log_inverse);
    double length = HUGE_VAL, most = 0;
    if (direction_ != Direction::replace) length = length_by_tails(plan, first, need, reach, most);
    const bool hopeful = most < kSomeDecay * need && bins_.empty() && most_products_ >= kWhole.products;
    if (!(length <= reach) && hopeful) length = length_by_cells(plan, first, need, reach);
    if (!(length <= reach)) return Status::slow_decay;
    plan.count = static_cast<std::int64_t>(std::ceil(length / plan.step)) + 1;
    return Status::certified;
}

// Returns the moved lines of the bins, or the moved lines of the parts if there are no bins.
std::vector<NoiseBinTail> CompositionMgf::make_bin_tails(double c, double first, double exact) const {
    std::vector<NoiseBinTail> out;
    for (const NoiseBin& bin : bins_) out.emplace_back(bin, direction_, c, first, exact);
    if (bins_.empty())
        for (const SampledMgf& part : parts_) {
            const auto& [sigma, q, direction] = part.pair();
            out.emplace_back(NoiseBin{q, sigma, sigma, part.step_count(), 1, sigma}, direction, c, first, exact);
        }
    return out;
}

double CompositionMgf::length_by_tails(const Plan& plan, double first, double need, double reach, double& most) const {
    // `each` is the decay that each step needs, and `exact` is -ln of the allowed error of |phi(s)| = |M(c + is)/M(c)|
    // of a step. This error is at most a thousandth of `each`, and for a large `each` at most a thousandth of |phi|.
    const double each = need / (1 + total_count_), exact = std::max(std::log(1e3 / each), each + 7);
    const std::vector<NoiseBinTail> tails = this->make_bin_tails(plan.c, first, exact);
    return search_composition_line_length(first, need, reach, [&](double s) {
        double total = 0.5 * mu2_ * s * s;
        for (std::size_t j = 0; j < tails.size() && total < need; ++j) total += tails[j].log_decay(s);
        most = std::max(most, total);
        return total;
    });
}

double CompositionMgf::decay_beyond(const Plan& plan, double end, double log_inverse) const {
    double total = 0;
    for (const NoiseBinTail& tail : make_bin_tails(plan.c, end, log_inverse)) total += tail.log_decay(end);
    return total * (1 - 1e-12);
}

double CompositionMgf::length_by_cells(const Plan& plan, double first, double need, double reach) {
    // The imaginary parts s are divided into ranges [s, 1.25 s]. The line ends where the last range with too little
    // decay ends.
    constexpr double ratio = 1.25;
    constexpr int most_ranges = 120;
    std::vector<MinorantTail> tails;
    for (SampledMgf& part : parts_) tails.emplace_back(part, plan.c, std::min(1e-4, 0.01 / total_count_));
    const auto decay_between = [&](double low, double high) {
        double total = 0.5 * mu2_ * low * low;
        for (std::size_t j = 0; j < tails.size() && total < need; ++j)
            total += parts_[j].step_count() * tails[j].log_decay(low, high);
        return total;
    };
    for (std::size_t j = 0; j < parts_.size(); ++j)
        if (need > 0.01 * parts_[j].step_count()) tails[j].sample_minorant_decay();
    // The decay must be large enough at all s beyond the length, and so at `reach`.
    if (decay_between(reach, 1.05 * reach) < need) return HUGE_VAL;
    double length = first, s = length;
    for (int i = 0; i < most_ranges && length <= ratio * reach; ++i, s *= ratio) {
        if (decay_between(s, ratio * s) < need)
            length = ratio * s;
        else if (decay_between(s, HUGE_VAL) >= need)
            return length;
    }
    return HUGE_VAL;
}

Status CompositionMgf::place_nodes_for_plan(const Plan& plan, double log_inverse) {
    if (!bins_.empty()) arrange_levels(plan.c, log_inverse - kCoarser);
    const double most = std::max(plan.right.c, plan.c), length = plan.count * plan.step;
    double products = 0;
    const auto serves = [&](std::vector<SampledMgf>& parts) {
        for (SampledMgf& part : parts) {
            if (!part.place_nodes(most, length, log_inverse, kMaxNodes)) return Status::too_many_nodes;
            products += static_cast<double>(part.node_count()) * plan.count;
            if (part.largest_mgf_node_loss() * length > kMostPhase) return Status::slow_decay;
        }
        return products > most_products_ ? Status::slow_decay : Status::certified;
    };
    Status status = serves(parts_);
    for (Interpolation& some : interpolations_)
        if (status == Status::certified) status = serves(some.nodes());
    return status;
}

std::vector<LogRatio> CompositionMgf::log_mgf_ratios(const Plan& plan) {
    const std::size_t n = plan.count;
    std::vector<LogRatio> ratios(n + 1);
    std::vector<double> xi_re(n), xi_im(n), rounding(n);
    for (SampledMgf& part : parts_) {
        work::spend(3 * kAbscissaUnits * plan.count);
        const double rule =
            part.compute_mgf_ratios(plan.c, plan.step, plan.count, xi_re.data(), xi_im.data(), rounding.data());
        for (std::size_t m = 1; m <= n; ++m)
            ratios[m].add_trapezoid_log_power(xi_re[m - 1], xi_im[m - 1], rule, rounding[m - 1], part.step_count());
    }
    for (Interpolation& some : interpolations_) some.add_to_ratios(ratios, plan.step);
    return ratios;
}

}  // namespace tightdp::contour
