// The PRV engine: Gopi, Lee and Wutschitz, "Numerical composition of differential privacy", 2021, with its
// rounding accounted for. Statement, proof and code pointers: docs/theory/prv.md.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "law.hpp"
#include "runtime/aligned.hpp"

namespace tightdp::prv {

// `count` runs of a mechanism that reveals everything with probability `failure` and otherwise has this
// privacy loss.
struct Run {
    Law law;
    std::uint64_t count;
    double failure = 0;
};

struct Request {
    double eps_error, delta_error;  // as in the paper's Theorem 5.5
    double max_bytes;
    double bytes_a_point = 0;  // what a Composer takes; 0: what compose_here takes
};

// --- The part of the work that a device can take: cells, transforms, powers.

// A circle of n points, n a power of two, and the cells [first, first + count) of hZ that hold each part's law.
struct Circle {
    double h;
    std::size_t n;
    struct Span {
        long long first;
        std::int64_t count;
    };
    std::vector<Span> spans;
};

// Sums over the cells of a part, before they are normalised, of mass, mass * index and mass * |index|.
struct CellSums {
    double total, moment, magnitude;
};

// values[i mod n] = P(sum of the parts' indices = i), each part's cells normalised by their total and run count times.
//
// kappa: of the transforms, as in docs/theory/fft.md, Theorems 1 to 3, powers and products within its Theorem 4.
// mass_error: of each normalised cell and of the sums, relatively, the latter as roundings of sums of magnitudes.
struct Composite {
    AlignedArray values;
    std::vector<CellSums> sums;
    double kappa = 0, mass_error = 0;
};

// The failures of runs are 0 here.
using Composer = std::function<Composite(const std::vector<Run>&, const Circle&)>;

// On the CPU, by RealFft.
Composite compose_here(const std::vector<Run>& runs, const Circle& circle);

// The answer does not fit into Request::max_bytes.
class TooLarge : public std::runtime_error {
  public:
    TooLarge(double needed, double allowed);
    double bytes;
};

// lower <= truth <= upper. What moves each end away from the discrete curve: `mesh`, a displacement in
// epsilon, and `tails` + `rounding`, added to delta. points = 0: only the moment bound answered.
struct Bounds {
    double lower, upper;
    double mesh, tails, rounding;
    double step, points;
};

// inf{eps >= 0 : delta(eps) <= delta}, delta in (0, 1).
Bounds epsilon(const std::vector<Run>& runs, double delta, const Request& request,
               const Composer& compose = compose_here);

// delta(eps), any finite eps.
Bounds delta(const std::vector<Run>& runs, double eps, const Request& request, const Composer& compose = compose_here);

}  // namespace tightdp::prv
