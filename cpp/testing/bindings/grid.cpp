// tightdp._testing: the weights of one privacy-loss distribution on a grid, and on a coarser grid.
#include "../../bindings/bind.hpp"
#include "../../bindings/grid_handle.hpp"
#include "grid/grid_weights.hpp"
#include "grid/level_composition.hpp"

namespace {

using namespace tightdp::grid;
using tightdp::bindings::make_numpy_array;

py::tuple testing_grid_weights(const GridLawHandle& h, double anchor, double spacing, double tilt, double log_scale,
                               std::int64_t first, std::size_t cells) {
    Discretised d;
    discretise_on_grid(*h.law, {anchor, spacing, tilt}, log_scale, first, cells, d);
    return py::make_tuple(make_numpy_array(d.upper.values), make_numpy_array(d.lower.values), d.slack, d.infinity_upper,
                          d.infinity_lower);
}

// Moves weights from a grid to a coarser grid. The coarser grid has the spacing coarse_h, which is twice the spacing of
// the given weights. The given weights have the indices first, first + 1, ..., and the sum of their absolute errors is
// at most `error`.
py::tuple testing_coarse_weights(std::vector<double> w, std::int64_t first, double error, double coarse_h, double tilt,
                                 bool upper) {
    const auto size = static_cast<double>(w.size());
    const InexactWeights fine{{first, std::move(w), 0}, error, 0, 0, static_cast<double>(first) + size - 1, size};
    const InexactWeights made = coarsen_grid_weights(fine, {0, coarse_h, tilt}, upper);
    return py::make_tuple(make_numpy_array(made.weights.values), made.weights.log_scale, made.error1);
}

}  // namespace

void bind_testing_grid(py::module_& m) {
    using namespace py::literals;
    m.def("grid_weights", &testing_grid_weights, "law"_a, "anchor"_a, "h"_a, "tilt"_a, "log_scale"_a, "first"_a,
          "cells"_a);
    m.def("grid_coarse", &testing_coarse_weights, "weights"_a, "first"_a, "error"_a, "coarse_h"_a, "tilt"_a, "upper"_a);
}
