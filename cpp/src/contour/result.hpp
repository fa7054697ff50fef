// The result of an inversion.
#pragma once

#include <cstdint>

#include "compare.hpp"

namespace tightdp::contour {

enum class Status {
    certified,
    slow_decay,      // few steps of small q: the characteristic function does not decay within reach
    too_many_nodes,  // small sigma: the strip of analyticity is narrow
    inaccurate,      // the certified error exceeds the value
    out_of_work,     // very many parts, or nodes, and an abscissa that is hard to find
};

struct Result {
    Status status = Status::inaccurate;
    double lower = 0, upper = 0;
    // Parts of the width, in the unit of the answer.
    double aliasing = 0, truncation = 0, quadrature = 0, rounding = 0;
    std::int64_t nodes = 0, abscissae = 0;
};

// The larger result of two directions; declined where one of them is.
TIGHTDP_HD inline Result worse(const Result& a, const Result& b) noexcept {
    if (a.status != Status::certified) return a;
    if (b.status != Status::certified) return b;
    Result r = a.upper < b.upper ? b : a;
    r.lower = larger(a.lower, b.lower);
    r.nodes = a.nodes < b.nodes ? b.nodes : a.nodes;
    r.abscissae = a.abscissae < b.abscissae ? b.abscissae : a.abscissae;
    return r;
}

}  // namespace tightdp::contour
