// epsilon(delta) of a run that grows, asked again and again: neighbouring runs share the line of the inversion.
// docs/theory/contour.md, section 9.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "composition_mgf.hpp"
#include "runtime/compensated_sum.hpp"

namespace tightdp::contour {

class Growing {
  public:
    explicit Growing(Direction direction) : direction_(direction) {}  // "remove" or "add"

    void add(const Sampled& part);
    // The sum is to be exact within 4u (contour.md 5.3).
    void add_plain(double mu2) { mu2_ += mu2; }

    // Answers as epsilon() of engine.hpp does. The kept line serves the next question; it changes the last digits at
    // most. Declined (not certified) where epsilon may be 0. Interrupted drops the line and keeps all parts.
    Result epsilon(double delta, double tolerance);

  private:
    // The contribution of steps to the line: ln M at its three abscissae, and a lower bound on -ln |M(z)/M(c)| from
    // its end on.
    struct OnLine {
        CertifiedLogMgf at, left, right;
        double decay = 0;

        void add(const OnLine& one, double count);
    };
    // One step of a part.
    struct Column : OnLine {
        double sigma, q, count;
        std::vector<double> re, im, rounding;  // of M(z)/M(c) - 1
        double rule;

        void add_to(std::vector<LogRatio>& ratios) const;
    };
    // The line with all parts but the latest ones, which are kept apart because they may be added again.
    struct Line : OnLine {  // left and right: upper ends
        Plan plan;
        double log_inverse, exact;
        double steps;  // of the run that it was made for
        std::vector<LogRatio> ratios;
        std::vector<Column> latest;
        double width = -1;  // relative, of the first answer
        double epsilon;     // of the last
    };

    // Makes a line for a question. Returns nothing where none serves.
    std::optional<Line> line(double delta, double tolerance) const;
    std::optional<Line> line(double delta, double tolerance, double most_products, bool groups) const;
    void extend(Line& line, const Sampled& part) const;
    Column column(const Line& line, const Sampled& part) const;
    Result solve(Line& line, double delta);
    Result answer(std::optional<Line>& line, double delta, double tolerance);

    Direction direction_;
    std::vector<Sampled> parts_;
    std::map<std::pair<double, double>, std::size_t> index_;
    CompensatedSum mu2_;
    double total_count_ = 0, distance_ = 0, most_ = 0;
    std::int64_t additions_ = 0;
    std::optional<Line> line_;
    HostSum sum_;
};

}  // namespace tightdp::contour
