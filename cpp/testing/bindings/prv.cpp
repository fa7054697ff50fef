// tightdp._testing: cells, mean and support of one privacy loss.
#include "../../bindings/bind.hpp"
#include "../../bindings/prv_entry.hpp"
#include "prv/cell_mass.hpp"

namespace {

using namespace tightdp::prv;

using tightdp::bindings::Entry;
using tightdp::bindings::run;

// Computes the cells as the threads of a device do.
void cells_by_thread(const Law& law, double h, long long first, std::int64_t count, double* out) {
    const Cells c{h, first, count};
    for (std::int64_t i = 0; i < count; ++i)
        out[i] = std::visit([&](const auto& l) { return cell_mass(l, c, i); }, law);
}

template <void (*fill)(const Law&, double, long long, std::int64_t, double*)>
py::array_t<double> cells_of(const Entry& entry, double h, long long first, std::int64_t count) {
    py::array_t<double> out(count);
    fill(run(entry).law, h, first, count, out.mutable_data());
    return out;
}

py::tuple mean_of(const Entry& entry) {
    const Mean m = prv_mean(run(entry).law);
    return py::make_tuple(m.value, m.error);
}

py::tuple support_of(const Entry& entry, double tail) {
    const Support s = prv_support(run(entry).law, tail);
    return py::make_tuple(s.low, s.high, s.tail, s.tail_moment, edge_error(run(entry).law, s));
}

}  // namespace

void bind_prv(py::module_& m) {
    using namespace py::literals;
    m.def("prv_cells", &cells_of<prv_cells>, "run"_a, "h"_a, "first"_a, "count"_a);
    m.def("emulate_prv_cells", &cells_of<cells_by_thread>, "run"_a, "h"_a, "first"_a, "count"_a);
    m.def("prv_mean", &mean_of, "run"_a, "(E[Y], bound on its error)");
    m.def("prv_support", &support_of, "run"_a, "tail"_a, "(low, high, tail, tail moment, edge error)");
}
