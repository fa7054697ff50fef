// tightdp._core: per-example clipping. What the arguments mean and how they are checked:
// python/tightdp/release/gradients.py.
#include "../../testing/clip_emulation.hpp"
#include "../../testing/kernel_emulation.hpp"
#include "../bind.hpp"
#include "../sealed_stream.hpp"
#include "clipping/clipped_sum.hpp"
#include "dlpack.hpp"
#include "unlocked.hpp"

namespace {

using tightdp::ClipRequest;
using tightdp::Dtype;
using tightdp::bindings::RowsView;
using tightdp::bindings::SealedStream;
using Vector = py::array_t<double, py::array::c_style>;

const double* data_or_null(const std::optional<Vector>& v) {
    return v ? v->data() : nullptr;
}

// (shape, dtype name or None, whether each row is one run in memory, whether it can be written)
py::tuple describe(const py::object& array) {
    const RowsView view = tightdp::bindings::rows_view(array);
    const py::object dtype =
        view.dtype ? py::object(py::str(tightdp::bindings::name_of(*view.dtype))) : py::none();
    return py::make_tuple(py::tuple(py::cast(view.shape)), dtype, view.contiguous, view.writable);
}

template <class Run>
void with_request(const std::vector<py::object>& grads, const std::vector<py::object>& outs, double max_norm,
                  bool normalize, double stability, const std::optional<Vector>& weights,
                  const std::optional<Vector>& center, const std::optional<Vector>& inverse_scale,
                  double deviation, const SealedStream* stream, bool accumulate, std::optional<Vector> norms,
                  const Run& run) {
    ClipRequest request;
    std::vector<RowsView> views;
    std::uint64_t before = 0;
    if (grads.size() != outs.size()) throw std::invalid_argument("as many outputs as inputs, please");
    for (std::size_t i = 0; i < grads.size(); ++i) {
        views.push_back(tightdp::bindings::rows_view(grads[i]));
        const RowsView& in = views.back();
        const RowsView out = tightdp::bindings::rows_view(outs[i]);
        request.rows = static_cast<std::size_t>(in.shape.at(0));
        request.dtype = in.dtype.value();
        request.out_double = out.dtype == Dtype::float64;
        const auto columns = static_cast<std::size_t>(in.columns());
        request.segments.push_back({in.data, in.stride, columns, out.data, before});
        before += columns;
    }
    request.accumulate = accumulate;
    request.max_norm = max_norm;
    request.rule = normalize ? tightdp::clipping::Rule::normalize : tightdp::clipping::Rule::flat;
    request.stability = stability;
    request.weights = data_or_null(weights);
    request.center = data_or_null(center);
    request.inverse_scale = data_or_null(inverse_scale);
    request.deviation = deviation;
    request.stream = stream ? &**stream : nullptr;
    request.norms = norms ? norms->mutable_data() : nullptr;
    tightdp::bindings::unlocked([&] { run(request); });
}

template <void (*run)(const ClipRequest&)>
void clipped_sum(const std::vector<py::object>& grads, const std::vector<py::object>& outs, double max_norm,
                 bool normalize, double stability, const std::optional<Vector>& weights,
                 const std::optional<Vector>& center, const std::optional<Vector>& inverse_scale,
                 double deviation, const SealedStream* stream, bool accumulate, std::optional<Vector> norms) {
    with_request(grads, outs, max_norm, normalize, stability, weights, center, inverse_scale, deviation,
                 stream, accumulate, norms, run);
}

// The exact form. integers: whether outs are of int64. noise_indices: of each array's first column in the stream.
// deviation: in steps of the grid. more: whatever else `run` takes.
template <auto run, class... More>
void exact_clipped_sum(const std::vector<py::object>& grads, const std::vector<py::object>& outs, double max_norm,
                       bool normalize, double stability, const std::optional<Vector>& weights,
                       const std::optional<Vector>& center, const std::optional<Vector>& inverse_scale,
                       double deviation, const SealedStream* stream, bool accumulate, std::optional<Vector> norms,
                       double grid, bool integers, const std::vector<std::uint64_t>& noise_indices,
                       More... more) {
    with_request(grads, outs, max_norm, normalize, stability, weights, center, inverse_scale, deviation,
                 stream, accumulate, norms, [&](ClipRequest& request) {
                     request.grid = grid;
                     request.out_integers = integers;
                     for (std::size_t i = 0; i < request.segments.size(); ++i)
                         request.segments[i].noise_index = noise_indices.at(i);
                     run(request, more...);
                 });
}

// device: (multiprocessors, bytes of shared memory, resident blocks, threads of a slice's block)
std::string emulate_clip_kernels(const std::vector<py::object>& grads, const std::vector<py::object>& outs,
                                 double max_norm, const std::optional<Vector>& weights,
                                 const std::optional<Vector>& center, const std::optional<Vector>& inverse_scale,
                                 std::optional<Vector> norms, const std::tuple<long, long, long, int>& device) {
    const auto [processors, shared, resident, threads] = device;
    std::string chosen;
    with_request(grads, outs, max_norm, false, 0.01, weights, center, inverse_scale, 0, nullptr, false, norms,
                 [&](const ClipRequest& request) {
                     chosen = tightdp::emulate_clip_kernels(request, {processors, shared, resident, threads});
                 });
    return chosen;
}

}  // namespace

void bind_gradients(py::module_& m) {
    m.def("describe_rows", &describe, py::arg("array"));
    const auto of_request = [&](const char* name, auto function) {
        m.def(name, function, py::arg("grads"), py::arg("outs"), py::arg("max_norm"), py::arg("normalize"),
              py::arg("stability"), py::arg("weights"), py::arg("center"), py::arg("inverse_scale"),
              py::arg("deviation"), py::arg("stream"), py::arg("accumulate"), py::arg("norms"));
    };
    of_request("clipped_sum", &clipped_sum<&tightdp::clipped_sum>);
    const auto exactly = [&](const char* name, auto function, auto... more) {
        m.def(name, function, py::arg("grads"), py::arg("outs"), py::arg("max_norm"), py::arg("normalize"),
              py::arg("stability"), py::arg("weights"), py::arg("center"), py::arg("inverse_scale"),
              py::arg("deviation"), py::arg("stream"), py::arg("accumulate"), py::arg("norms"), py::arg("grid"),
              py::arg("integers"), py::arg("noise_indices"), more...);
    };
    exactly("exact_clipped_sum", &exact_clipped_sum<&tightdp::clipped_sum>);
    // What a device computes, for tests.
    of_request("emulate_clipped_sum", &clipped_sum<&tightdp::emulate_clipped_sum>);
    exactly("emulate_exact_kernels", &exact_clipped_sum<&tightdp::emulate_exact_kernels, long, long>, py::arg("blocks"),
            py::arg("group"));
    m.def("emulate_clip_kernels", &emulate_clip_kernels, py::arg("grads"), py::arg("outs"), py::arg("max_norm"),
          py::arg("weights"), py::arg("center"), py::arg("inverse_scale"), py::arg("norms"), py::arg("device"));
}
