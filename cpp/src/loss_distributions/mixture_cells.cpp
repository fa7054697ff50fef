// The pair (P, Q) of two mixtures of shifted Gaussians (docs/theory/mixtures.md, sections 1 to 3).
//
// P = sum p_i N(a_i) and Q = sum q_j N(-b_j), where N(a) has the mean a and the standard deviation 1. The numbers a_i
// and b_j are not negative. Components with a positive shift a_i are called "ahead", and components with a negative
// shift -b_j "behind". The likelihood ratio dP/dQ increases with the output z, so a cell, an interval of losses,
// corresponds to an interval of outputs. The masses of the cell are sums, with positive factors, of the masses of the
// Gaussian pairs (N(a_i), N(0)) and (N(0), N(-b_j)) over this interval. P may include components behind, but then only
// losses >= 0 may be used as edges of cells.
//
// Newton's method finds the output at a given loss. The method starts from a table of nodes, which are outputs with
// their losses and the slopes of the loss there. The sketch (Density::list_loss_sketch_edges) consists of losses of the
// table.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "loss_distribution.hpp"
#include "runtime/work_budget.hpp"
#include "tightdp/special/logaddexp.hpp"

namespace tightdp::grid {
namespace {

// Tables and sketches extend by this many standard deviations beyond the outermost means. Densities further out are
// below e^-745 and underflow.
constexpr double kFar = 39;
// Distance of evenly spaced nodes of the table, in standard deviations, and largest number of these nodes.
constexpr double kStep = 0.1;
constexpr double kMostNodes = 4000;
// Largest number of nodes that are inserted where the loss bends. A bend between two components takes about a hundred
// nodes. Nodes are close enough if the slope of the loss at either node differs from the mean slope between the nodes
// by at most a fraction kBent.
constexpr std::size_t kMostFiner = 8000;
constexpr double kBent = 0.25;
constexpr int kMostHalvings = 48;
constexpr int kMostSteps = 100;
// Units of work (runtime/work_budget.hpp) for one component and one cell. Every component takes kFaintUnits, which
// include kFewLooks evaluations of the loss. Each further evaluation takes kLookUnits. A component that is not left out
// of the cell (kFaint) takes kComponentUnits in addition.
constexpr std::int64_t kComponentUnits = 225, kFaintUnits = 75, kLookUnits = 10;
constexpr int kFewLooks = 4;
// A component's share at an output is its weight times its density there. If the ratio of two shares is below e^kFaint,
// the component with the smaller share is left out. The shares of 96 components, two times kMostShifts, are then
// together less than 2^-53 times the largest share.
constexpr double kFaint = -46;

// A component with a shift other than 0, and its weights p and q in P and in Q.
struct Component {
    bool ahead;    // whether the component is ahead, otherwise it is behind
    double shift;  // > 0
    double p, q;
    std::shared_ptr<const Density> gaussian;  // density of (N(shift), N(0)), and also of (N(0), N(-shift))

    double log_p = std::log(p), log_q = std::log(q);

    double half_squared_mixture_shift() const { return 0.5 * shift * shift; }
    // Returns the loss of this component at an output.
    double mixture_component_loss(double z) const {
        return ahead ? shift * z - half_squared_mixture_shift() : shift * z + half_squared_mixture_shift();
    }
    // log_mixture_component_ratio() returns the logarithm of the ratio of the component's density to the density of
    // N(0) at an output. log_mixture_component_share() returns the logarithm of the product of this ratio and the
    // component's weight.
    double log_mixture_component_ratio(double z) const {
        return ahead ? mixture_component_loss(z) : -mixture_component_loss(z);
    }
    double log_mixture_component_share(double z) const {
        return (ahead ? log_p : log_q) + log_mixture_component_ratio(z);
    }
};

class Mixture final : public Density {
  public:
    Mixture(const std::vector<Shifted>& given, double lost_p, double lost_q, double rel)
        : weight_error_(rel), log_kept_ratio_(std::log1p(-lost_p) - std::log1p(-lost_q)) {
        for (const Shifted& one : given) {
            if (one.shift == 0) {
                p_ += one.p;
                q_ += one.q;
                continue;
            }
            const bool ahead = one.shift > 0;
            const double shift = std::abs(one.shift);
            components_.push_back({ahead, shift, one.p, ahead ? 0 : one.q, make_gaussian_losses(shift)->density});
            (ahead ? first_ : last_) = std::max(ahead ? first_ : last_, shift);
            shared_ = shared_ || (!ahead && one.p > 0);
        }
        // Components ahead come before components behind. Within each of the two groups the smallest shift comes last,
        // because the mass of N(0) is taken from the cells of the last component.
        std::ranges::sort(components_, std::ranges::greater(),
                          [](const Component& one) { return std::pair(one.ahead, one.shift); });
        if (!components_.empty()) {
            const auto [least, most] = std::ranges::minmax(components_, {}, &Component::shift);
            faint_ = kFaint - std::log(most.shift / least.shift);
        }
        const double limit = p_ > 0 && q_ > 0 ? std::log(p_ / q_) : p_ > 0 ? kInfinity : -kInfinity;
        if (last_ == 0) bottom_ = limit;
        if (first_ == 0) top_ = limit;
        tabulate_mixture_losses();
    }

    void compute_loss_cells(const double* edges, std::size_t count, CellBlock& out) const override {
        work::spend(kFaintUnits * static_cast<std::int64_t>(count * components_.size()));
        double z[CellBlock::kCells + 1], off = 0;
        for (std::size_t i = 0; i <= count; ++i) {
            const Output found = locate_mixture_output(edges[i]);
            z[i] = found.z;
            if (std::isfinite(z[i])) off = larger_loss_distribution_error(off, bound_mixture_loss_error(edges[i], found));
        }
        out.slack = larger_loss_distribution_error(
            out.slack, off + 2 * weight_error_ + 8 * u * (std::isfinite(bottom_) || std::isfinite(top_)));
        std::size_t begin = 0, end = count + 1;  // range of the edges with a finite output
        while (begin <= count && z[begin] == -kInfinity) ++begin;
        while (end > begin && z[end - 1] == kInfinity) --end;
        for (std::size_t i = 0; i < count; ++i) out.put_loss_cell(i, {});
        if (begin > 0 && begin <= count) compute_first_mixture_cell(edges[begin - 1], z[begin], begin - 1, out);
        if (begin < end) compute_inner_mixture_cells(edges, z, begin, end - 1, out);
        if (end <= count && end > begin) compute_last_mixture_cell(edges[end - 1], end - 1, out);
    }

    Left measure_losses_below(double y) const override {
        return measure_mixture_left_of_output(mixture_output_at_loss(y));
    }

    Right measure_losses_above(double y) const override {
        const double z = mixture_output_at_loss(y);
        if (z == -kInfinity) return {{0, 1}, {0, 1}};
        if (z == kInfinity) return {{-kInfinity, 0}, {-kInfinity, 0}};
        double s = -kInfinity, t = -kInfinity, rel = 0, none = -kInfinity;
        for (const Component& one : components_) {
            const double edge = one.mixture_component_loss(z);
            const Right right = one.gaussian->measure_losses_above(edge);
            rel = std::max({rel, right.s.rel, right.t.rel});
            if (one.ahead) {
                t = logaddexp(t, std::log(one.p) + right.t.log);
                none = right.s.log - edge;
                continue;
            }
            s = logaddexp(s, std::log(one.q) + y - edge + right.s.log);
            const double surplus = log_mixture_component_surplus(one, y);
            if (surplus > -kInfinity) t = logaddexp(t, surplus - edge + right.t.log);
            none = logaddexp(right.s.log, right.t.log);
        }
        if (q_ > 0) s = logaddexp(s, std::log(q_) + y + none);
        rel += weight_error_ + u * (64 + 16 * (std::abs(y) + bound_mixture_exponents(z)));
        return {{s, rel + log_mass_rounding(s)}, {t, rel + log_mass_rounding(t)}};
    }

    double largest_finite_loss() const override {
        return top_ + 8 * u * std::abs(top_) + (std::isfinite(top_) ? 2 * weight_error_ : 0);
    }

    std::vector<double> list_loss_sketch_edges() const override {
        std::vector<double> edges = sketch_;
        if (shared_) edges.erase(edges.begin(), std::lower_bound(edges.begin(), edges.end(), 0.0));
        return edges;
    }

  private:
    double bound_mixture_exponents(double z) const {
        return std::max(first_, last_) * (std::abs(z) + std::max(first_, last_));
    }

    static double log_mass_rounding(double log) { return std::isfinite(log) ? (24 + 8 * std::abs(log)) * u : 0; }

    // Returns ln(e^y q - p) for a component behind. Precondition: y >= 0 if p > 0.
    static double log_mixture_component_surplus(const Component& one, double y) {
        if (one.p == 0) return std::log(one.q) + y;
        const double more = one.q * std::expm1(std::min(y, 700.0)) + (one.q - one.p);
        return more > 0 ? std::log(more) + std::max(0.0, y - 700) : -kInfinity;
    }

    // The loss at an output, its derivative by the output, and a bound on the error of the loss.
    struct Value {
        double loss, slope, error;
    };
    // The logarithm of the ratio of the density of P or of Q to the density of N(0), and a bound on the error of this
    // logarithm. `mean` is the mean shift of the components, given the output.
    struct Side {
        double log, mean, error;
    };

    // Computes ln(sum w e^x / sum w) over the components that have a weight w on one side. Here x is the logarithm of
    // the ratio of the component's density to the density of N(0), at the output z. The component N(0) itself has the
    // weight `rest` and x = 0.
    Side sum_mixture_side(double z, double rest, double Component::*weight, double Component::*log_weight) const {
        double top = rest > 0 ? 0 : -kInfinity, largest = rest > 0 ? std::log(rest) : -kInfinity, total = rest;
        for (const Component& one : components_) {
            if (!(one.*weight > 0)) continue;
            const double x = one.log_mixture_component_ratio(z);
            top = std::max(top, x);
            largest = std::max(largest, x + one.*log_weight);
            total += one.*weight;
        }
        if (std::abs(top) <= 1) top = 0;  // then `grown` adds w (e^x - 1), which may be tiny
        double grown = rest > 0 ? rest * std::expm1(-top) : 0, sum = rest > 0 ? rest * std::exp(-top) : 0;
        double shifted = 0, error = 0;
        bool faint = false;
        for (const Component& one : components_) {
            if (!(one.*weight > 0)) continue;
            if (top == 0) error += 8 * one.*weight;
            const double x = one.log_mixture_component_ratio(z);
            if (x + one.*log_weight < largest + faint_) {  // e^x counts as 0
                grown -= top == 0 ? one.*weight : 0;
                faint = true;
                continue;
            }
            const double less = top == 0 ? std::expm1(x) : 0;
            const double e = one.*weight * (top == 0 ? 1 + less : std::exp(x - top));
            grown += one.*weight * less;
            sum += e;
            shifted += e * (one.ahead ? one.shift : -one.shift);
            error += e * (12 + 4 * (std::abs(one.shift * z) + one.half_squared_mixture_shift()));
        }
        const double mean = shifted / sum;
        const double share = grown / total;
        const double log = top == 0 && share > -0.5 ? std::log1p(share) : std::log(sum / total) + top;
        if (!(top == 0 && share > -0.5)) error += sum * (8 + 2 * std::abs(log));
        if (faint) error += sum;
        return {log, mean, u * (error / sum + 4 * std::abs(log))};
    }

    Value compute_mixture_loss(double z) const {
        const Side p = sum_mixture_side(z, p_, &Component::p, &Component::log_p);
        const Side q = sum_mixture_side(z, q_, &Component::q, &Component::log_q);
        return {p.log - q.log + log_kept_ratio_, p.mean - q.mean,
                p.error + q.error + 8 * u * std::abs(log_kept_ratio_)};
    }

    // A node of the table: an output and the loss at this output.
    struct Node {
        double z;
        Value at;
    };

    // Tells whether evenly spaced nodes over all outputs would be too many.
    bool is_mixture_table_long() const { return first_ + last_ + 2 * kFar > kMostNodes * kStep; }

    // Returns evenly spaced outputs. If there would be too many, only the outputs within kFar of a component's mean are
    // returned.
    std::vector<double> list_even_mixture_outputs() const {
        std::vector<double> means{0};
        for (const Component& one : components_) means.push_back(one.ahead ? one.shift : -one.shift);
        std::ranges::sort(means);
        struct Stretch {
            double from, to;
        };
        std::vector<Stretch> stretches;
        double total = 0;
        for (const double mean : means) {
            if (!stretches.empty() && (!is_mixture_table_long() || mean - kFar <= stretches.back().to))
                stretches.back().to = mean + kFar;
            else
                stretches.push_back({mean - kFar, mean + kFar});
        }
        for (const auto& [from, to] : stretches) total += to - from;
        const double nodes = std::min(kMostNodes, std::ceil(total / kStep));
        std::vector<double> outputs;
        for (const auto& [from, to] : stretches) {
            const double count = std::ceil(nodes * ((to - from) / total));
            for (double i = 0; i <= count; ++i) outputs.push_back(from + (to - from) * (i / count));
        }
        return outputs;
    }

    // Tells whether a cubic through the losses and slopes of two nodes is close to the loss between them. Also returns
    // true if the losses differ by no more than their errors.
    bool is_mixture_loss_straight(const Node& left, const Node& right) const {
        const double rise = right.at.loss - left.at.loss, width = right.z - left.z;
        if (!(rise > 4 * (left.at.error + right.at.error))) return true;
        return std::abs(rise / (width * left.at.slope) - 1) < kBent &&
               std::abs(rise / (width * right.at.slope) - 1) < kBent;
    }

    // Adds nodes between `left` and `right` until the loss is nearly straight between neighbouring nodes. If the means
    // of two components are far apart, the loss bends where one component begins to dominate, within a small fraction
    // of a standard deviation.
    void refine_mixture_table(const Node& left, const Node& right, int halvings, std::vector<Node>& nodes) const {
        if (halvings == 0 || nodes.size() >= kMostFiner || is_mixture_loss_straight(left, right)) return;
        const double z = 0.5 * (left.z + right.z);
        const Node middle{z, compute_mixture_loss(z)};
        refine_mixture_table(left, middle, halvings - 1, nodes);
        nodes.push_back(middle);
        refine_mixture_table(middle, right, halvings - 1, nodes);
    }

    void tabulate_mixture_losses() {
        std::vector<Node> even, finer;
        for (const double z : list_even_mixture_outputs()) even.push_back({z, compute_mixture_loss(z)});
        for (std::size_t i = 0; i + 1 < even.size(); ++i)
            refine_mixture_table(even[i], even[i + 1], kMostHalvings, finer);
        sketch_ = keep_ascending_mixture_losses(even);
        std::vector<Node> all;
        std::ranges::merge(even, finer, std::back_inserter(all), {}, &Node::z, &Node::z);
        losses_ = keep_ascending_mixture_losses(all);
        for (const Node& node : all) {
            outputs_.push_back(node.z);
            slopes_.push_back(node.at.slope);
        }
        if (!is_mixture_table_long()) return;
        // The sketch of a long table takes every n-th of all nodes, also of those that refine_mixture_table() added.
        // The sketch has at most about kMostNodes losses.
        const std::size_t nth = losses_.size() / static_cast<std::size_t>(kMostNodes) + 1;
        sketch_.clear();
        for (std::size_t i = 0; i < losses_.size(); i += nth) sketch_.push_back(losses_[i]);
    }

    // Removes nodes so that the losses of the remaining nodes ascend strictly, and returns these losses. A node is
    // removed if its loss is not below the loss of a later node. Such nodes occur where the likelihood ratio falls or
    // hardly rises.
    std::vector<double> keep_ascending_mixture_losses(std::vector<Node>& nodes) const {
        std::vector<Node> kept;
        for (const Node& node : nodes) {
            const double y = node.at.loss;
            if (!std::isfinite(y) || y <= bottom_ || y >= top_) continue;
            while (!kept.empty() && kept.back().at.loss >= y) kept.pop_back();
            kept.push_back(node);
        }
        nodes = std::move(kept);
        std::vector<double> losses;
        for (const Node& node : nodes) losses.push_back(node.at.loss);
        return losses;
    }

    // An output and the loss at this output.
    struct Output {
        double z;
        Value value;
    };

    double mixture_output_at_loss(double y) const { return locate_mixture_output(y).z; }

    // Returns the output at a given loss. The output is infinite if all losses are smaller or all losses are larger.
    // The result depends on the loss alone, to the last bit. If two calls returned different outputs for an edge, the
    // mass between these outputs would be lost.
    Output locate_mixture_output(double y) const {
        if (y <= bottom_) return {-kInfinity, {}};
        if (y >= top_) return {kInfinity, {}};
        const std::size_t size = outputs_.size();
        const std::size_t at =
            static_cast<std::size_t>(std::upper_bound(losses_.begin(), losses_.end(), y) - losses_.begin());
        double low = at > 0 ? outputs_[at - 1] : -kInfinity, high = at < size ? outputs_[at] : kInfinity, z = 0;
        if (at > 0 && at < size) {
            // A cubic is used if the slopes at both ends are near the mean slope, and a straight line otherwise.
            const double rise = losses_[at] - losses_[at - 1], share = (y - losses_[at - 1]) / rise;
            const double a = rise / ((high - low) * slopes_[at - 1]) - 1, b = 1 - rise / ((high - low) * slopes_[at]);
            const double bent = share + share * (1 - share) * ((1 - share) * a + share * b);
            z = low + (high - low) * (std::abs(a) < 0.5 && std::abs(b) < 0.5 ? bent : share);
        } else if (size > 0) {
            z = at > 0 ? low : high;
        }
        // `step` is the largest length of a single step beyond the outermost nodes.
        double step = 1 + std::abs(z);
        Value here = compute_mixture_loss(z);
        int i = 0;
        for (; i < kMostSteps; ++i) {
            const double gap = y - here.loss;
            if (std::abs(gap) <= here.error) break;
            (gap > 0 ? low : high) = z;
            if (here.slope == 0 && !(std::isfinite(low) && std::isfinite(high))) return {gap > 0 ? high : low, {}};
            double next = z + gap / here.slope;
            if (low == -kInfinity || high == kInfinity) {
                next = std::clamp(next, z - step, z + step);
                if (!(next > low && next < high)) next = gap > 0 ? z + step : z - step;
                step *= 16;
            } else {
                if (!(next > low && next < high)) next = 0.5 * (low + high);
                if (next == z || !(high - low > 2 * u * (std::abs(low) + std::abs(high)))) break;
            }
            z = next;
            here = compute_mixture_loss(z);
        }
        if (i > kFewLooks) work::spend(kLookUnits * (i - kFewLooks) * static_cast<std::int64_t>(components_.size()));
        return {z, here};
    }

    // Bounds the distance between y and the loss at the output that was found for y. The second term bounds the effect
    // of rounding the output and the shift in each component.
    double bound_mixture_loss_error(double y, const Output& found) const {
        const Value& here = found.value;
        return 1.1 * (std::abs(here.loss - y) + here.error) +
               1.5 * std::abs(here.slope) * 24 * u * (std::abs(found.z) + std::max(first_, last_));
    }

    Left measure_mixture_left_of_output(double z) const {
        if (z == -kInfinity) return {{-kInfinity, 0}, {-kInfinity, 0}};
        if (z == kInfinity) return {{0, 1}, {0, 1}};
        double p = -kInfinity, q = -kInfinity, rel = 0, none = -kInfinity;
        for (const Component& one : components_) {
            const Left left = one.gaussian->measure_losses_below(one.mixture_component_loss(z));
            const double own = (one.ahead ? left.p : left.q).log;
            if (one.p > 0) p = logaddexp(p, std::log(one.p) + own);
            if (one.q > 0) q = logaddexp(q, std::log(one.q) + own);
            none = (one.ahead ? left.q : left.p).log;
            rel = std::max({rel, left.p.rel, left.q.rel});
        }
        if (p_ > 0) p = logaddexp(p, std::log(p_) + none);
        if (q_ > 0) q = logaddexp(q, std::log(q_) + none);
        rel += weight_error_ + u * (64 + 16 * bound_mixture_exponents(z));
        return {{p, rel + log_mass_rounding(p)}, {q, rel + log_mass_rounding(q)}};
    }

    // Computes the cell that holds the smallest loss ln(p_0 / q_0), where p_0 and q_0 are the weights of N(0). There
    // are no components behind.
    void compute_first_mixture_cell(double edge, double z, std::size_t at, CellBlock& out) const {
        const Left all = measure_mixture_left_of_output(z);
        const double scale = std::max({all.p.log, all.q.log, -1e300});
        double none = 0, t = 0;
        for (const Component& one : components_) {  // all of them are ahead
            if (z == kInfinity) break;
            const Left left = one.gaussian->measure_losses_below(one.mixture_component_loss(z));
            t += one.p * std::exp(left.p.log - scale);
            none = std::exp(left.q.log - scale);
        }
        if (z == kInfinity) t = none = 1;
        out.put_loss_cell(at, {q_ * std::exp(edge) * none, t + std::max(0.0, p_ - q_ * std::exp(edge)) * none, scale,
                               std::max(all.p.rel, all.q.rel) + 16 * u, kInfinity});
        // The rounding error of p_0 - q_0 e^edge has the same effect as an error of the edge by 8 u.
        out.slack = larger_loss_distribution_error(out.slack, 8 * u);
    }

    // Computes the cell that holds the largest loss ln(p_0 / q_0). There are no components ahead.
    void compute_last_mixture_cell(double edge, std::size_t at, CellBlock& out) const {
        const Right right = measure_losses_above(edge);
        const double scale = std::max({right.s.log, right.t.log, -1e300});
        out.put_loss_cell(at, {std::exp(right.s.log - scale), std::exp(right.t.log - scale), scale,
                               std::max(right.s.rel, right.t.rel) + 16 * u, kInfinity});
    }

    // Consecutive cells, [from, to).
    struct Cells {
        std::size_t from = 0, to = 0;

        bool hold_mixture_cell(std::size_t i) const { return from <= i && i < to; }
        void add_mixture_cell(std::size_t i) {
            if (from == to) from = i;
            to = i + 1;
        }
    };

    // Returns, for each component, the cells between consecutive outputs in which the component counts. A component
    // does not count in a cell if its share is tiny (kFaint) at both ends of the cell, compared with the share of
    // another component on its side (mixtures.md, section 3).
    std::vector<Cells> list_mixture_component_cells(const double* z, std::size_t count) const {
        std::vector<Cells> found(components_.size());
        if (shared_) {
            for (Cells& cells : found) cells = {0, count};
            return found;
        }
        const std::size_t ahead = static_cast<std::size_t>(
            std::ranges::count_if(components_, [](const Component& one) { return one.ahead; }));
        for (const auto& [first, last] : {std::pair(std::size_t{0}, ahead), std::pair(ahead, components_.size())}) {
            std::vector<double> left(last - first), right(last - first);
            for (std::size_t j = first; j < last; ++j)
                right[j - first] = components_[j].log_mixture_component_share(z[0]);
            for (std::size_t i = 0; i < count && first < last; ++i) {
                std::swap(left, right);
                for (std::size_t j = first; j < last; ++j)
                    right[j - first] = components_[j].log_mixture_component_share(z[i + 1]);
                const auto largest = [](const std::vector<double>& shares) {
                    return static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin());
                };
                const std::size_t at_left = largest(left), at_right = largest(right);
                const auto is_above = [&](std::size_t k, std::size_t j) {
                    return left[j] < left[k] + faint_ && right[j] < right[k] + faint_;
                };
                for (std::size_t j = 0; j < last - first; ++j)
                    if (!is_above(at_left, j) && !is_above(at_right, j)) found[first + j].add_mixture_cell(i);
            }
        }
        return found;
    }

    void compute_inner_mixture_cells(const double* edges, const double* z, std::size_t begin, std::size_t end,
                                     CellBlock& out) const {
        if (begin == end) return;
        const std::size_t count = end - begin, components = components_.size();
        const std::vector<Cells> counted = list_mixture_component_cells(z + begin, count);
        std::vector<std::unique_ptr<CellBlock>> blocks(components);
        double at[CellBlock::kCells + 1];
        for (std::size_t j = 0; j < components; ++j) {
            const auto [from, to] = counted[j];
            if (from == to) continue;
            blocks[j].reset(new CellBlock);
            work::spend(kComponentUnits * static_cast<std::int64_t>(to - from));
            for (std::size_t i = from; i <= to; ++i) at[i - from] = components_[j].mixture_component_loss(z[begin + i]);
            components_[j].gaussian->compute_loss_cells(at, to - from, *blocks[j]);
            out.work += blocks[j]->work;
        }
        std::vector<double> s_log(components + 1), t_log(components);
        for (std::size_t i = 0; i < count; ++i) {
            const double y = edges[begin + i], here = z[begin + i];
            double unit = -1e300, rel = 0, none = 0, none_log = -kInfinity;
            for (std::size_t j = 0; j < components; ++j) {
                if (!counted[j].hold_mixture_cell(i)) continue;
                const Component& one = components_[j];
                const CellBlock::Cell cell = (*blocks[j])[i - counted[j].from];
                const double edge = one.mixture_component_loss(here);
                if (one.ahead) {
                    s_log[j] = -kInfinity;
                    t_log[j] = one.log_p + cell.log_scale;
                    none = cell.s;
                    none_log = cell.log_scale - edge;
                } else {
                    s_log[j] = one.log_q + y - edge + cell.log_scale;
                    t_log[j] = log_mixture_component_surplus(one, y) - edge + cell.log_scale;
                    none = cell.s + cell.t;
                    none_log = cell.log_scale;
                }
                rel = std::max(rel, cell.rel);
                if (cell.s > 0) unit = std::max(unit, s_log[j]);
                if (cell.t > 0) unit = std::max(unit, t_log[j]);
            }
            if (!(unit > -1e300)) unit = 0;
            s_log[components] = q_ > 0 ? std::log(q_) + y + none_log : -kInfinity;
            if (none > 0) unit = std::max(unit, s_log[components]);
            double s = none > 0 ? none * std::exp(s_log[components] - unit) : 0, t = 0;
            for (std::size_t j = 0; j < components; ++j) {
                if (!counted[j].hold_mixture_cell(i)) continue;
                const CellBlock::Cell cell = (*blocks[j])[i - counted[j].from];
                if (cell.s > 0) s += cell.s * std::exp(s_log[j] - unit);
                if (cell.t > 0) t += cell.t * std::exp(t_log[j] - unit);
            }
            const double next = z[begin + i + 1], width = next - here, far = std::max(std::abs(here), std::abs(next));
            const double bend = shared_ ? kInfinity : width * (far + 4 * std::max(first_, last_)) * (1 + 1e-9);
            const double error = 2 * rel + weight_error_ +
                                 u * (66 + 8 * std::abs(unit) + 32 * (std::abs(y) + bound_mixture_exponents(here)));
            out.put_loss_cell(begin + i, {s, t, unit, error, bend});
        }
    }

    std::vector<Component> components_;
    double p_ = 0, q_ = 0;  // weights of N(0) in P and in Q
    double weight_error_, log_kept_ratio_;
    double first_ = 0, last_ = 0;                    // the largest shifts ahead and behind
    double faint_ = kFaint;                          // kFaint - ln(largest shift / smallest shift)
    double bottom_ = -kInfinity, top_ = kInfinity;   // the limits of the losses
    bool shared_ = false;                            // whether P includes components behind
    std::vector<double> losses_, outputs_, slopes_;  // for each node; losses_ and outputs_ ascend
    std::vector<double> sketch_;
};

}  // namespace

std::shared_ptr<const Density> make_mixture_density(const std::vector<Shifted>& components, double lost_p,
                                                    double lost_q, double rel) {
    return std::make_shared<Mixture>(components, lost_p, lost_q, rel);
}

LossDistributionPtr make_gaussian_mixture_losses(const std::vector<Shifted>& components, double lost_p, double lost_q,
                                                 double rel) {
    auto losses = std::make_shared<LossDistribution>();
    losses->density = make_mixture_density(components, lost_p, lost_q, rel);
    losses->infinity = lost_p;
    losses->minus_infinity = lost_q;
    losses->mass_rel = rel;
    return losses;
}

namespace {

// Largest number of positive shifts of one mixture. The work grows with this number, because cells are computed for
// each shift. If there are more shifts, the least probable ones are replaced by neighbouring shifts.
constexpr std::size_t kMostShifts = 48;
// Shifts smaller than this fraction of the largest shift are rounded up to this fraction or down to 0.
constexpr double kTiny = 1e-9;
// Smallest shift whose quotient by sigma may be recognised as exact. For smaller shifts the error of the quotient may
// underflow, so such shifts are treated as rounded.
constexpr double kLeastExact = 1e-250;

double largest_mixture_shift(const std::vector<Weight>& weights, double sigma) {
    return weights.back().shift / sigma;
}

// Tells whether shift / sigma is exact.
bool is_mixture_shift_exact(double shift, double sigma) {
    return shift == 0 || (shift > kLeastExact && std::fma(shift / sigma, sigma, -shift) == 0);
}

// Returns the shifts divided by sigma, all rounded up or all rounded down, in ascending order. At most kMostShifts are
// positive, and all positive ones are at least kTiny times the largest.
std::vector<Weight> round_mixture_shifts(const std::vector<Weight>& weights, double sigma, bool high) {
    const double least = kTiny * largest_mixture_shift(weights, sigma);
    // `ordered` has the positive shifts. Some of them are kept, and each kept shift replaces all later shifts of
    // `ordered` up to the next kept one.
    std::vector<Weight> ordered, found;
    double at_none = 0;
    for (const Weight& one : weights)
        if (one.shift > 0)
            ordered.push_back(one);
        else
            at_none += one.probability;
    if (high) std::ranges::reverse(ordered);
    // The most probable shifts are kept, and so is the first one.
    std::vector<std::size_t> by_probability(ordered.size());
    std::iota(by_probability.begin(), by_probability.end(), std::size_t{0});
    std::ranges::sort(by_probability, {},
                      [&](std::size_t i) { return std::pair(-ordered[i].probability, ordered[i].shift); });
    by_probability.resize(std::min(by_probability.size(), kMostShifts - 1));
    std::vector<bool> stands(ordered.size(), false);
    for (const std::size_t i : by_probability) stands[i] = true;
    double at = 0;
    for (std::size_t i = 0; i < ordered.size(); ++i) {
        const Weight& one = ordered[i];
        if (i == 0 || stands[i]) {
            at = one.shift / sigma;
            if (!is_mixture_shift_exact(one.shift, sigma)) at = std::nextafter(at, high ? kInfinity : 0);
            if (at < least) at = high ? least : 0;
        }
        if (!found.empty() && found.back().shift == at)
            found.back().probability += one.probability;
        else
            found.push_back({at, one.probability});
    }
    if (high) std::ranges::reverse(found);
    found.insert(found.begin(), {0, at_none});
    return found;
}

// The shifts `ahead` and `behind`, all rounded up or all rounded down.
struct Rounded {
    std::vector<Weight> ahead, behind;

    bool operator==(const Rounded& other) const {
        const auto equal = [](const Weight& a, const Weight& b) {
            return a.shift == b.shift && a.probability == b.probability;
        };
        return std::ranges::equal(ahead, other.ahead, equal) && std::ranges::equal(behind, other.behind, equal);
    }
};

LossDistributionPtr make_rounded_mixture_distribution(const Rounded& mixtures, double lost, double rel) {
    std::vector<Shifted> components;
    Shifted none{0, 0, 0};
    const auto add = [&](double shift, double p, double q) {
        if (shift != 0 && p + q > 0) components.push_back({shift, p, q});
        if (shift == 0) none.p += p, none.q += q;
    };
    for (const Weight& one : mixtures.ahead) add(one.shift, one.probability, 0);
    for (const Weight& one : mixtures.behind) add(-one.shift, 0, one.probability);
    components.push_back(none);
    return make_gaussian_mixture_losses(components, lost, lost, rel);
}

}  // namespace

LossDistributionPair bound_gaussian_mixture_losses(const std::vector<Weight>& ahead, const std::vector<Weight>& behind,
                                                   double sigma, double lost, double rel) {
    // Merging shifts adds up at most as many probabilities as there are shifts, and each addition rounds.
    rel += 0x1p-50 * static_cast<double>(std::max(ahead.size(), behind.size()));
    const auto rounded = [&](bool high) {
        return Rounded{round_mixture_shifts(ahead, sigma, high), round_mixture_shifts(behind, sigma, high)};
    };
    const Rounded high = rounded(true), low = rounded(false);
    const LossDistributionPtr upper = make_rounded_mixture_distribution(high, lost, rel);
    // If rounding up and rounding down gave the same shifts, no shift was rounded or merged.
    return {upper, lost == 0 && high == low ? upper : make_rounded_mixture_distribution(low, lost, rel)};
}

}  // namespace tightdp::grid
