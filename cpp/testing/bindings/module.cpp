// The module of functions that only tests call. The module is built with TIGHTDP_BUILD_TESTS in CMake, and wheels do
// not contain it.
#include "../../bindings/bind.hpp"

void bind_clipping(py::module_& m);
void bind_contour(py::module_& m);
void bind_dense(py::module_& m);
void bind_fixed_size(py::module_& m);
void bind_grid(py::module_& m);
void bind_prv(py::module_& m);
void bind_random(py::module_& m);
void bind_simd_math(py::module_& m);
void bind_special(py::module_& m);

PYBIND11_MODULE(_testing, m) {
    m.doc() = "Functions for tests: parts of the engines, and device kernels that the host runs.";
    py::module_::import("tightdp._core");  // registers the types of streams and distributions
    bind_clipping(m);
    bind_contour(m);
    bind_dense(m);
    bind_fixed_size(m);
    bind_grid(m);
    bind_prv(m);
    bind_random(m);
    bind_simd_math(m);
    bind_special(m);
}
