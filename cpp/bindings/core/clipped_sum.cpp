// tightdp._core: per-example clipping.
#include "../clip_request.hpp"
#include "unlocked.hpp"

namespace {

using namespace tightdp::bindings;

// Returns (shape, dtype name or None, whether each row is contiguous in memory, whether the array is writable).
py::tuple describe_python_rows(const py::object& array) {
    const RowsView view = view_python_rows(array);
    const char* const dtype = view.dtype ? name_python_dtype(*view.dtype) : nullptr;
    return py::make_tuple(py::tuple(py::cast(view.shape)), dtype, view.contiguous, view.writable);
}

}  // namespace

void bind_core_clipped_sum(py::module_& m) {
    m.def("describe_rows", &describe_python_rows, py::arg("array"));
    bind_clipped_sum(m, "clipped_sum",
                     [](const tightdp::ClipRequest& request) { run_unlocked([&] { tightdp::clipped_sum(request); }); });
}
