// tightdp._core.rfft_*: the Fourier transform.
#include "../bind.hpp"
#include "fft/real_fft.hpp"

namespace {

using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;
using tightdp::RealFft;

std::size_t numpy_length(const Array& x) {
    if (x.ndim() != 1) throw std::invalid_argument("expected a one-dimensional array");
    return static_cast<std::size_t>(x.size());
}

// Makes a plan for the length of x, and returns the array `out` of this length that apply(plan, out) fills.
template <class F>
py::array_t<double> transform_numpy(const Array& x, F apply) {
    const auto plan = RealFft::plan(numpy_length(x));
    return tightdp::bindings::fill_new_numpy<double>({x.size()}, [&](double* out) { apply(*plan, out); });
}

py::array_t<double> numpy_rfft_forward(const Array& x) {
    return transform_numpy(x, [&](const RealFft& plan, double* out) { plan.forward(x.data(), out); });
}

py::array_t<double> numpy_rfft_inverse(const Array& spectrum) {
    return transform_numpy(spectrum, [&](const RealFft& plan, double* out) { plan.inverse(spectrum.data(), out); });
}

py::array_t<double> numpy_rfft_multiply(const Array& a, const Array& b) {
    if (numpy_length(a) != numpy_length(b)) throw std::invalid_argument("spectra differ in length");
    return transform_numpy(a, [&](const RealFft& plan, double* out) { plan.multiply(a.data(), b.data(), out); });
}

py::array_t<double> numpy_rfft_power(const Array& a, std::uint64_t k) {
    if (k < 1) throw std::invalid_argument("k must be an integer >= 1");
    return transform_numpy(a, [&](const RealFft& plan, double* out) { plan.power(a.data(), k, out); });
}

}  // namespace

void bind_fft(py::module_& m) {
    m.def("rfft_forward", &numpy_rfft_forward, py::arg("x"));
    m.def("rfft_inverse", &numpy_rfft_inverse, py::arg("spectrum"));
    m.def("rfft_multiply", &numpy_rfft_multiply, py::arg("a"), py::arg("b"));
    m.def("rfft_power", &numpy_rfft_power, py::arg("a"), py::arg("k"));
    m.def("rfft_rounding_bound", [](std::size_t n) { return RealFft::plan(n)->rounding_bound(); }, py::arg("n"));
    m.def("rfft_power_bound", &RealFft::power_bound, py::arg("k"));
}
