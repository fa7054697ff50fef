// The module of functions that only tests call. The module is built with TIGHTDP_BUILD_TESTS in CMake, and wheels do
// not contain it.
#include "../../bindings/bind.hpp"

void bind_testing_clipping(py::module_& m);
void bind_testing_contour(py::module_& m);
void bind_testing_dense_layers(py::module_& m);
void bind_testing_fixed_size(py::module_& m);
void bind_testing_grid(py::module_& m);
void bind_testing_prv(py::module_& m);
void bind_testing_random(py::module_& m);
void bind_testing_simd_math(py::module_& m);
void bind_testing_special(py::module_& m);

PYBIND11_MODULE(_testing, m) {
    m.doc() = "Functions for tests: parts of the engines, and device kernels that the host runs.";
    py::module_::import("tightdp._core");  // registers the types of streams and distributions
    bind_testing_clipping(m);
    bind_testing_contour(m);
    bind_testing_dense_layers(m);
    bind_testing_fixed_size(m);
    bind_testing_grid(m);
    bind_testing_prv(m);
    bind_testing_random(m);
    bind_testing_simd_math(m);
    bind_testing_special(m);
}
