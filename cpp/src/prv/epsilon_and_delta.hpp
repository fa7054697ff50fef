// The PRV engine: the method of Gopi, Lee and Wutschitz, "Numerical composition of differential privacy", 2021, with
// bounds on its rounding errors. The statement and the proof are in docs/theory/prv.md.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/aligned.hpp"
#include "single_losses.hpp"

namespace tightdp::prv {

// A mechanism that is run `count` times. Each time, it reveals everything with probability `failure`, and otherwise has
// the privacy loss distribution `law`.
struct Run {
    Law law;
    std::uint64_t count;
    double failure = 0;
};

// The requested errors, and the memory that may be used.
struct Request {
    double eps_error, delta_error;  // as in Theorem 5.5 of the paper
    double max_bytes;
    double bytes_a_point = 0;  // memory that a Composer takes for each point, or 0 for the memory of compose_on_cpu
};

// --- The part of the work that may be done on a device: cells, transforms and powers.

// A circle of n points, where n is a power of two. A part is a Run. spans[p] names the cells [first, first + count)
// that hold the distribution of part p. Cell i belongs to the loss i h.
struct Circle {
    double h;
    std::size_t n;
    struct Span {
        long long first;
        std::int64_t count;
    };
    std::vector<Span> spans;
};

// Sums over the cells of a part before the cells are normalised: of mass, of mass * index, and of mass * |index|.
struct CellSums {
    double total, moment, magnitude;
};

// A composition on the circle. values[i mod n] is the probability that the indices of all losses add up to i. The cells
// of each part are divided by their total first, and each part is run `count` times.
//
// kappa bounds the error of the transforms (docs/theory/fft.md, Theorems 1 to 3). Theorem 4 of that page bounds the
// errors of powers and products. mass_error bounds the relative error of each normalised cell, and also the errors of
// the members of `sums`. The error of total is relative to total. The errors of moment and of magnitude are relative to
// magnitude.
struct Composite {
    AlignedArray values;
    std::vector<CellSums> sums;
    double kappa = 0, mass_error = 0;
};

// A function that composes runs, whose failure probabilities are 0.
using Composer = std::function<Composite(const std::vector<Run>&, const Circle&)>;

// Composes runs on the CPU, by RealFft.
Composite compose_on_cpu(const std::vector<Run>& runs, const Circle& circle);

// Thrown if the computation does not fit into Request::max_bytes.
class TooLarge : public std::runtime_error {
  public:
    TooLarge(double needed, double allowed);
    double bytes;
};

// Bounds on epsilon or delta. Each end differs from the curve of the discretised losses by `mesh` in epsilon and by
// `tails` + `rounding` in delta. If `points` is 0, the bounds come from moments only.
struct Bounds {
    double lower, upper;
    double mesh, tails, rounding;
    double step, points;
};

// Bounds inf{eps >= 0 : delta(eps) <= delta}, for delta in (0, 1).
Bounds epsilon(const std::vector<Run>& runs, double delta, const Request& request,
               const Composer& compose = compose_on_cpu);

// Bounds delta(eps), for any finite eps.
Bounds delta(const std::vector<Run>& runs, double eps, const Request& request,
             const Composer& compose = compose_on_cpu);

}  // namespace tightdp::prv
