#include "bind.hpp"
#include "../src/cpu/selection.hpp"

void bind_selection(py::module_& m) {
    using namespace py::literals;
    m.def(
        "worst_selections",
        [](double eta, std::size_t count, std::size_t cells) {
            py::array_t<double> curve(static_cast<py::ssize_t>(2 * count * cells + 1));
            double* out = curve.mutable_data();
            {
                py::gil_scoped_release release;
                tightdp::worst_selections(eta, count, cells, out);
            }
            return curve;
        },
        "eta"_a, "count"_a, "cells"_a);
}
