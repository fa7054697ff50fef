// tightdp._core: per-example clipping.
#include "../clip_request.hpp"
#include "unlocked.hpp"

namespace {

using namespace tightdp::bindings;

// Returns (shape, dtype name or None, whether each row is contiguous in memory, whether the array is writable).
py::tuple describe(const py::object& array) {
    const RowsView view = rows_view(array);
    const char* const dtype = view.dtype ? name_of(*view.dtype) : nullptr;
    return py::make_tuple(py::tuple(py::cast(view.shape)), dtype, view.contiguous, view.writable);
}

}  // namespace

void bind_gradients(py::module_& m) {
    m.def("describe_rows", &describe, py::arg("array"));
    def_clipped_sum(m, "clipped_sum",
                    [](const tightdp::ClipRequest& request) { unlocked([&] { tightdp::clipped_sum(request); }); });
}
