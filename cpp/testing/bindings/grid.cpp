// tightdp._testing: the weights of one privacy-loss distribution on a grid.
#include "../../bindings/bind.hpp"
#include "../../bindings/grid_handle.hpp"
#include "grid/lattice.hpp"

namespace {

using namespace tightdp::grid;

py::array_t<double> array(const std::vector<double>& x) {
    return py::array_t<double>(static_cast<py::ssize_t>(x.size()), x.data());
}

py::tuple weights(const GridLawHandle& h, double anchor, double spacing, double tilt, double log_scale,
                  std::int64_t first, std::size_t cells) {
    Discretised d;
    discretise(*h.law, {anchor, spacing, tilt}, log_scale, first, cells, d);
    return py::make_tuple(array(d.upper.w), array(d.lower.w), d.slack, d.infinity_upper, d.infinity_lower);
}

}  // namespace

void bind_grid(py::module_& m) {
    using namespace py::literals;
    m.def("grid_weights", &weights, "law"_a, "anchor"_a, "h"_a, "tilt"_a, "log_scale"_a, "first"_a, "cells"_a);
}
