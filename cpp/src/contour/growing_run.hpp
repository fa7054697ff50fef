// Computes epsilon(delta) of a run after more and more of its steps. The moment generating function M of the privacy
// loss is inverted on a line of points z = c + i m step, where c is the line's abscissa. The same line serves for
// consecutive results (docs/theory/contour.md, section 9).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "composition_mgf.hpp"
#include "runtime/compensated_sum.hpp"

namespace tightdp::contour {

// A run that grows, under "remove" or "add".
class GrowingRun {
  public:
    explicit GrowingRun(Direction direction) : direction_(direction) {}

    void add_steps(const Sampled& part);
    // Adds mu2 = count / sigma^2 of plain Gaussians, those without sampling. The sum over all calls must have a
    // relative error of at most 2^-51 (contour.md, section 5.3).
    void add_gaussians_to_growing_run(double mu2) { mu2_ += mu2; }

    // Bounds epsilon as epsilon() of epsilon_and_delta.hpp does. The line is kept for the next call. A kept line
    // changes at most the last digits of a result. If epsilon may be 0, the status of the result is not `certified`. If
    // the call is interrupted, the line is dropped, and all parts are kept.
    Result epsilon(double delta, double tolerance);

  private:
    // The contribution of some steps to a line. `at` is ln M at the line's abscissa c. `left` and `right` are ln M at
    // the two auxiliary abscissae, one on each side of c, which bound the aliasing error (inversion/plan.hpp). `decay`
    // is a lower bound on -ln |M(z)/M(c)| beyond the end of the line.
    struct LineContribution {
        CertifiedLogMgf at, left, right;
        double decay = 0;

        void add_contribution(const LineContribution& one, double count);
    };
    // The contribution of one step of a part to a line. The part has `count` steps.
    struct Column : LineContribution {
        double sigma, q, count;
        // Real and imaginary parts of M(z)/M(c) - 1 at the abscissae with m = 1 .. plan.count, and bounds on their
        // rounding errors.
        std::vector<double> re, im, rounding;
        double rule;  // bound on the error of M(z)/M(c) from the trapezoid rule that computes M, for all abscissae

        void add_to_ratios(std::vector<LogRatio>& ratios) const;
    };
    // A line of abscissae, and the contributions of the run to it. Each part in `latest` has a column of its own,
    // because the run is likely to add steps of this part again. `ratios` and the members of LineContribution are sums
    // over all other parts. Only upper() of `left` and `right` is used, as an upper bound on ln M.
    struct Line : LineContribution {
        Plan plan;
        // Precision of the contribution of one step. `log_inverse` is -ln of the allowed relative error of M. The
        // member `decay` comes from a bound on |M(z)/M(c)|, and `exact` is -ln of the allowed error of this bound.
        double log_inverse, exact;
        double steps;  // number of steps of the run when the line was made
        std::vector<LogRatio> ratios;
        std::vector<Column> latest;
        double width = -1;  // relative width of the first result
        double epsilon;     // the last result
    };

    // Makes a line for the current run. Returns nothing if no line is suitable.
    std::optional<Line> make_line(double delta, double tolerance) const;
    std::optional<Line> make_line(double delta, double tolerance, double most_products, bool groups) const;
    void extend_line(Line& line, const Sampled& part) const;
    Column make_column(const Line& line, const Sampled& part) const;
    Result solve_on_line(Line& line, double delta);
    Result answer_on_line(std::optional<Line>& line, double delta, double tolerance);

    Direction direction_;
    std::vector<Sampled> parts_;
    std::map<std::pair<double, double>, std::size_t> index_;
    CompensatedSum mu2_;
    // Sums over the sampled steps: their number, a bound on delta(0), and a bound on the largest loss under "add".
    double total_count_ = 0, distance_ = 0, most_ = 0;
    std::int64_t additions_ = 0;  // number of calls of add_steps()
    std::optional<Line> line_;
    HostSum sum_;
};

}  // namespace tightdp::contour
