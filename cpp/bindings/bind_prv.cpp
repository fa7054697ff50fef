// tightdp._core.prv_*: the PRV engine.
#include "bind.hpp"
#include "tightdp/prv/composition.hpp"

namespace {

using namespace tightdp::prv;

// (name, first parameter, sampling probability, count, failure probability)
using Entry = std::tuple<std::string, double, double, std::uint64_t, double>;

Run run(const Entry& entry) {
    const auto& [name, a, q, count, failure] = entry;
    if (name == "gaussian") return {GaussianLaw{a, 0}, count, failure};
    if (name == "laplace") return {LaplaceLaw{a}, count, failure};
    if (name == "pure") return {PureLaw{a}, count, failure};
    if (name == "sampled_remove") return {SampledLaw{a, q, false}, count, failure};
    if (name == "sampled_add") return {SampledLaw{a, q, true}, count, failure};
    throw std::invalid_argument("unknown law " + name);
}

template <class Query>
py::tuple ask(const std::vector<Entry>& entries, double at, const Request& request, Query query) {
    std::vector<Run> runs;
    for (const Entry& entry : entries) runs.push_back(run(entry));
    Answer a;
    {
        py::gil_scoped_release release;
        a = query(runs, at, request);
    }
    return py::make_tuple(a.lower, a.upper, a.mesh, a.tails, a.rounding, a.step, a.points);
}

py::array_t<double> cells_of(const Entry& entry, double h, long long first, long count) {
    py::array_t<double> out(count);
    cells(run(entry).law, h, first, count, out.mutable_data());
    return out;
}

py::tuple mean_of(const Entry& entry) {
    const Mean m = mean(run(entry).law);
    return py::make_tuple(m.value, m.error);
}

py::tuple support_of(const Entry& entry, double tail) {
    const Support s = support(run(entry).law, tail);
    return py::make_tuple(s.low, s.high, s.tail, s.tail_moment, edge_error(run(entry).law, s));
}

}  // namespace

void bind_prv(py::module_& m) {
    py::register_exception<TooLarge>(m, "PrvTooLarge", PyExc_ValueError);
    m.def(
        "prv_epsilon",
        [](const std::vector<Entry>& runs, double delta, double eps_error, double delta_error,
           double max_bytes) { return ask(runs, delta, {eps_error, delta_error, max_bytes}, epsilon); },
        py::arg("runs"), py::arg("delta"), py::arg("eps_error"), py::arg("delta_error"), py::arg("max_bytes"),
        "(lower, upper, mesh, tails, rounding, step, points) of epsilon(delta).");
    m.def(
        "prv_delta",
        [](const std::vector<Entry>& runs, double eps, double eps_error, double delta_error,
           double max_bytes) { return ask(runs, eps, {eps_error, delta_error, max_bytes}, delta); },
        py::arg("runs"), py::arg("eps"), py::arg("eps_error"), py::arg("delta_error"), py::arg("max_bytes"),
        "(lower, upper, mesh, tails, rounding, step, points) of delta(eps).");
    // For tests
    m.def("prv_cells", &cells_of, py::arg("run"), py::arg("h"), py::arg("first"), py::arg("count"));
    m.def("prv_mean", &mean_of, py::arg("run"), "(E[Y], bound on its error)");
    m.def("prv_support", &support_of, py::arg("run"), py::arg("tail"),
          "(low, high, tail, tail moment, edge error)");
}
