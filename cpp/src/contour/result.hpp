// What an inversion comes to.
#pragma once

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
    long nodes = 0, abscissae = 0;
};

}  // namespace tightdp::contour
