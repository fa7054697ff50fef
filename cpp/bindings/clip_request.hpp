// Converts the arguments of a clipped sum from Python. The arguments are described and checked in
// python/tightdp/clipping_and_noise/clipping.py.
#pragma once

#include "bind.hpp"
#include "clipping/clipped_sum.hpp"
#include "dlpack.hpp"
#include "sealed_stream.hpp"

namespace tightdp::bindings {

using Doubles = py::array_t<double, py::array::c_style>;

inline double* data_or_null(std::optional<Doubles>& v) {
    return v ? v->mutable_data() : nullptr;
}

// Binds the function run(request, more...), which is called with the interpreter's lock held. `names` are the names of
// the arguments `more`. If `grid` is 0, the sums are doubles. If `grid` is positive, integers are added (the exact
// form), and `deviation` is in steps of the grid. `integers` tells whether `outs` are arrays of int64. `noise_indices`
// has, for each array, the index of the first column's noise in the random stream. If `noise_indices` is None, the
// columns of all arrays have successive indices.
template <class... More, class Run, class... Names>
void bind_clipped_sum(py::module_& m, const char* name, Run run, const Names&... names) {
    using namespace py::literals;
    m.def(
        name,
        [run](const std::vector<py::object>& grads, const std::vector<py::object>& outs, double max_norm,
              bool normalize, double stability, std::optional<Doubles> weights, std::optional<Doubles> center,
              std::optional<Doubles> inverse_scale, double deviation, const SealedStream* stream, bool accumulate,
              std::optional<Doubles> norms, double grid, bool integers,
              const std::optional<std::vector<std::uint64_t>>& noise_indices, const More&... more) {
            if (grads.size() != outs.size()) throw std::invalid_argument("grads and outs must have the same length");
            ClipRequest request;
            std::vector<RowsView> views;  // keeps the arrays alive
            std::uint64_t before = 0;
            for (std::size_t i = 0; i < grads.size(); ++i) {
                views.push_back(view_python_rows(grads[i]));
                const RowsView& in = views.back();
                const RowsView out = view_python_rows(outs[i]);
                request.rows = static_cast<std::size_t>(in.shape.at(0));
                request.dtype = in.dtype.value();
                request.out_double = out.dtype == Dtype::float64;
                const auto columns = static_cast<std::size_t>(in.columns());
                request.segments.push_back(
                    {in.data, in.stride, columns, out.data, noise_indices ? noise_indices->at(i) : before});
                before += columns;
            }
            request.accumulate = accumulate;
            request.max_norm = max_norm;
            request.rule = normalize ? clipping::Rule::normalize : clipping::Rule::flat;
            request.stability = stability;
            request.weights = data_or_null(weights);
            request.center = data_or_null(center);
            request.inverse_scale = data_or_null(inverse_scale);
            request.deviation = deviation;
            request.stream = stream ? &**stream : nullptr;
            request.norms = data_or_null(norms);
            request.grid = grid;
            request.out_integers = integers;
            return run(request, more...);
        },
        "grads"_a, "outs"_a, "max_norm"_a, "normalize"_a, "stability"_a, "weights"_a, "center"_a, "inverse_scale"_a,
        "deviation"_a, "stream"_a, "accumulate"_a, "norms"_a, "grid"_a = 0.0, "integers"_a = false,
        "noise_indices"_a = py::none(), names...);
}

}  // namespace tightdp::bindings
