// tightdp._core.rfft_*: the Fourier transform.
#include "../bind.hpp"
#include "fft/real_fft.hpp"

namespace {

using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;
using tightdp::RealFft;

std::size_t length(const Array& x) {
    if (x.ndim() != 1) throw std::invalid_argument("expected a one-dimensional array");
    return static_cast<std::size_t>(x.size());
}

// Makes a plan for the length of x, and returns the array `out` of this length that apply(plan, out) fills.
template <class F>
py::array_t<double> transformed(const Array& x, F apply) {
    const auto plan = RealFft::plan(length(x));
    return tightdp::bindings::filled<double>({x.size()}, [&](double* out) { apply(*plan, out); });
}

py::array_t<double> forward(const Array& x) {
    return transformed(x, [&](const RealFft& plan, double* out) { plan.forward(x.data(), out); });
}

py::array_t<double> inverse(const Array& spectrum) {
    return transformed(spectrum, [&](const RealFft& plan, double* out) { plan.inverse(spectrum.data(), out); });
}

py::array_t<double> multiply(const Array& a, const Array& b) {
    if (length(a) != length(b)) throw std::invalid_argument("spectra differ in length");
    return transformed(a, [&](const RealFft& plan, double* out) { plan.multiply(a.data(), b.data(), out); });
}

py::array_t<double> power(const Array& a, std::uint64_t k) {
    if (k < 1) throw std::invalid_argument("k must be an integer >= 1");
    return transformed(a, [&](const RealFft& plan, double* out) { plan.power(a.data(), k, out); });
}

}  // namespace

void bind_fft(py::module_& m) {
    m.def("rfft_forward", &forward, py::arg("x"));
    m.def("rfft_inverse", &inverse, py::arg("spectrum"));
    m.def("rfft_multiply", &multiply, py::arg("a"), py::arg("b"));
    m.def("rfft_power", &power, py::arg("a"), py::arg("k"));
    m.def("rfft_rounding_bound", [](std::size_t n) { return RealFft::plan(n)->rounding_bound(); }, py::arg("n"));
    m.def("rfft_power_bound", &RealFft::power_bound, py::arg("k"));
}
