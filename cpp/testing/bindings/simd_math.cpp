#include "../simd_math.hpp"

#include "../../bindings/bind.hpp"

void bind_testing_simd_math(py::module_& m) {
    using namespace tightdp;
    py::module_ simd = m.def_submodule("simd_math", "Vector functions for arrays whose length is a multiple of 8.");
    for (const MathFunction& function : TIGHTDP_SELECT_SIMD(math_functions)()) {
        simd.def(function.name,
                 [apply = function.apply](py::array_t<double, py::array::c_style | py::array::forcecast> x) {
                     if (x.size() % 8 != 0) throw py::value_error("x must have a multiple of 8 elements");
                     py::array_t<double> out(x.size());
                     apply(x.data(), out.mutable_data(), x.size());
                     return out;
                 });
    }
}
