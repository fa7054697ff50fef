#include "../bind.hpp"
#include "bounded_range/worst_selections.hpp"

using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

void bind_selection(py::module_& m) {
    using namespace py::literals;
    m.def(
        "worst_selections",
        [](double eta, std::size_t count, std::size_t cells) {
            return tightdp::bindings::fill_new_numpy<double>(
                {static_cast<py::ssize_t>(2 * count * cells + 1)},
                [&](double* curve) { tightdp::worst_selections(eta, count, cells, curve); });
        },
        "eta"_a, "count"_a, "cells"_a);
    m.def(
        "gaussian_mixture",
        [](double mu, const Array& losses, const Array& weights, double eps) {
            if (losses.ndim() != 1 || weights.ndim() != 1 || losses.size() != weights.size())
                throw std::invalid_argument("losses and weights must be vectors of one length");
            const auto n = static_cast<std::size_t>(losses.size());
            py::gil_scoped_release release;
            return tightdp::bound_gaussian_after_selections(mu, losses.data(), weights.data(), n, eps);
        },
        "mu"_a, "losses"_a, "weights"_a, "eps"_a);
}
