// The extension module: one line a concept, each bound in its own file.
#include "../bind.hpp"
#include "runtime/dispatch.hpp"

void bind_arithmetic(py::module_& m);
void bind_contour(py::module_& m);
void bind_dense(py::module_& m);
void bind_dlpack(py::module_& m);
void bind_exact(py::module_& m);
void bind_fft(py::module_& m);
void bind_gradients(py::module_& m);
void bind_prv(py::module_& m);
void bind_selection(py::module_& m);
void bind_special(py::module_& m);
void bind_random(py::module_& m);
void bind_grid(py::module_& m);
void bind_allocation(py::module_& m);
void bind_work(py::module_& m);

PYBIND11_MODULE(_core, m) {
    if (!tightdp::isa_cap_is_known())
        throw py::import_error("TIGHTDP_ISA must be baseline, avx2 or avx512: the most that may be used");
    m.doc() = "The compiled core of tightdp. Private: use the tightdp package.";
    m.attr("__version__") = TIGHTDP_VERSION;
    bind_arithmetic(m);
    bind_contour(m);
    bind_dense(m);
    bind_dlpack(m);
    bind_exact(m);
    bind_fft(m);
    bind_gradients(m);
    bind_prv(m);
    bind_selection(m);
    bind_special(m);
    bind_random(m);
    bind_grid(m);
    bind_allocation(m);
    bind_work(m);
    m.def(
        "isa", [] { return tightdp::isa_name(tightdp::active_isa()); },
        "The instruction set in use: baseline, avx2 or avx512.");
}
