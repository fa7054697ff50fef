// tightdp._core: special functions over arrays, and the Gaussian mechanism in closed form.
#include <cmath>
#include <string>

#include "../bind.hpp"
#include "tightdp/accounting/gaussian.hpp"
#include "tightdp/special/log_ndtri.hpp"

namespace {

using namespace tightdp;
using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

void check_python_number(const char* name, double value, double low, double high, const char* range) {
    if (value >= low && value <= high) return;
    throw std::invalid_argument(std::string(name) + " must be " + range + ", got " + std::to_string(value));
}

py::tuple make_python_interval(Interval i) {
    return py::make_tuple(i.lower, i.upper);
}

void check_python_mu(double mu) {
    check_python_number("mu", mu, kGaussianMuMin, kGaussianMuMax, "in [1e-9, 1e9]");
}

py::tuple python_gaussian_delta(double mu, double eps) {
    check_python_mu(mu);
    check_python_number("eps", eps, -1.7976931348623157e308, 1.7976931348623157e308, "finite");
    return make_python_interval(gaussian_bounds(mu, eps).delta);
}

py::tuple python_gaussian_deltas(const Array& mu, const Array& eps) {
    if (mu.ndim() != 1 || eps.ndim() != 1 || mu.size() != eps.size())
        throw std::invalid_argument("expected two arrays of one length");
    Array lower(mu.size()), upper(mu.size());
    for (py::ssize_t i = 0; i < mu.size(); ++i) {
        check_python_mu(mu.data()[i]);
        const Interval found = gaussian_bounds(mu.data()[i], eps.data()[i]).delta;
        lower.mutable_data()[i] = found.lower;
        upper.mutable_data()[i] = found.upper;
    }
    return py::make_tuple(lower, upper);
}

py::tuple python_gaussian_epsilon(double mu, double delta) {
    check_python_mu(mu);
    check_python_number("delta", delta, 1e-300, std::nextafter(1.0, 0.0), "in [1e-300, 1)");
    return make_python_interval(gaussian_epsilon(mu, delta));
}

}  // namespace

void bind_special(py::module_& m) {
    m.def("ndtr", py::vectorize(ndtr), py::arg("x"));
    m.def("log_ndtri", py::vectorize(log_ndtri), py::arg("log_p"));
    m.def("gaussian_delta", &python_gaussian_delta, py::arg("mu"), py::arg("eps"),
          "Certified (lower, upper) of delta(eps).");
    m.def("gaussian_deltas", &python_gaussian_deltas, py::arg("mu"), py::arg("eps"),
          "Certified (lower, upper) of delta(eps) for each pair of entries of two arrays.");
    m.def("gaussian_epsilon", &python_gaussian_epsilon, py::arg("mu"), py::arg("delta"),
          "Certified (lower, upper) of epsilon(delta).");
}
