// The result of an inversion of the moment generating function of the privacy loss.
#pragma once

#include <cstdint>

#include "min_max_clamp.hpp"

namespace tightdp::contour {

enum class Status {
    certified,
    slow_decay,      // the characteristic function decays too slowly, as for few steps at a small sampling rate
    too_many_nodes,  // the quadrature would need too many nodes, as for a small sigma
    inaccurate,      // the certified error exceeds the value
    out_of_work,     // the budget of work is spent, as for very many parts of a composition
};

struct Result {
    Status status = Status::inaccurate;
    double lower = 0, upper = 0;
    // The error terms that make up upper - lower.
    double aliasing = 0, truncation = 0, quadrature = 0, rounding = 0;
    std::int64_t nodes = 0, abscissae = 0;
};

// Returns the larger of the results for two directions. If one result is not certified, returns that result.
TIGHTDP_HD inline Result worse_result(const Result& a, const Result& b) noexcept {
    if (a.status != Status::certified) return a;
    if (b.status != Status::certified) return b;
    Result r = a.upper < b.upper ? b : a;
    r.lower = max_value(a.lower, b.lower);
    r.nodes = a.nodes < b.nodes ? b.nodes : a.nodes;
    r.abscissae = a.abscissae < b.abscissae ? b.abscissae : a.abscissae;
    return r;
}

}  // namespace tightdp::contour
