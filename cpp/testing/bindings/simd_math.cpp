#include "../simd_math.hpp"

#include "../../bindings/bind.hpp"

void bind_simd_math(py::module_& m) {
    using tightdp::MathFunction;
    static const std::pair<const char*, MathFunction> functions[] = {{"exp", MathFunction::exp},
                                                                     {"expm1", MathFunction::expm1},
                                                                     {"log", MathFunction::log},
                                                                     {"log1p", MathFunction::log1p},
                                                                     {"cos_minus_1", MathFunction::cos_minus_1},
                                                                     {"sin", MathFunction::sin}};
    py::module_ simd = m.def_submodule("simd_math", "The vector functions over arrays of a multiple of 8 doubles.");
    for (const auto& [name, function] : functions) {
        const MathFunction f = function;
        simd.def(name, [f](py::array_t<double, py::array::c_style | py::array::forcecast> x) {
            if (x.size() % 8 != 0) throw py::value_error("x must have a multiple of 8 elements");
            py::array_t<double> out(x.size());
            tightdp::apply_math(f, x.data(), out.mutable_data(), x.size());
            return out;
        });
    }
}
