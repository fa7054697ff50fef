// tightdp._testing: cells, mean and support of one privacy loss.
#include "../../bindings/bind.hpp"
#include "../../bindings/prv_entry.hpp"
#include "prv/cell_mass.hpp"

namespace {

using namespace tightdp::prv;

using tightdp::bindings::Entry;
using tightdp::bindings::read_prv_entry;

// Computes the cells as the threads of a device do.
void testing_cells_by_thread(const Law& law, double h, long long first, std::int64_t count, double* out) {
    const Cells c{h, first, count};
    for (std::int64_t i = 0; i < count; ++i)
        out[i] = std::visit([&](const auto& l) { return cell_mass(l, c, i); }, law);
}

template <void (*fill)(const Law&, double, long long, std::int64_t, double*)>
py::array_t<double> testing_prv_cells(const Entry& entry, double h, long long first, std::int64_t count) {
    py::array_t<double> out(count);
    fill(read_prv_entry(entry).law, h, first, count, out.mutable_data());
    return out;
}

py::tuple testing_prv_mean(const Entry& entry) {
    const Mean m = prv_mean(read_prv_entry(entry).law);
    return py::make_tuple(m.value, m.error);
}

py::tuple testing_prv_support(const Entry& entry, double tail) {
    const Support s = prv_support(read_prv_entry(entry).law, tail);
    return py::make_tuple(s.low, s.high, s.tail, s.tail_moment, edge_error(read_prv_entry(entry).law, s));
}

}  // namespace

void bind_testing_prv(py::module_& m) {
    using namespace py::literals;
    m.def("prv_cells", &testing_prv_cells<prv_cells>, "run"_a, "h"_a, "first"_a, "count"_a);
    m.def("emulate_prv_cells", &testing_prv_cells<testing_cells_by_thread>, "run"_a, "h"_a, "first"_a, "count"_a);
    m.def("prv_mean", &testing_prv_mean, "run"_a, "(E[Y], bound on its error)");
    m.def("prv_support", &testing_prv_support, "run"_a, "tail"_a, "(low, high, tail, tail moment, edge error)");
}
