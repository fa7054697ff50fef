// tightdp._core: special functions over arrays, and the Gaussian mechanism in closed form.
#include <cmath>
#include <string>

#include "../bind.hpp"
#include "tightdp/accounting/gaussian.hpp"
#include "tightdp/special/log_ndtri.hpp"

namespace {

using namespace tightdp;

void check(const char* name, double value, double low, double high, const char* range) {
    if (value >= low && value <= high) return;
    throw std::invalid_argument(std::string(name) + " must be " + range + ", got " + std::to_string(value));
}

py::tuple pair(Interval i) {
    return py::make_tuple(i.lower, i.upper);
}

void check_mu(double mu) {
    check("mu", mu, kGaussianMuMin, kGaussianMuMax, "in [1e-9, 1e9]");
}

py::tuple delta(double mu, double eps) {
    check_mu(mu);
    check("eps", eps, -1.7976931348623157e308, 1.7976931348623157e308, "finite");
    return pair(gaussian_bounds(mu, eps).delta);
}

py::tuple epsilon(double mu, double delta) {
    check_mu(mu);
    check("delta", delta, 1e-300, std::nextafter(1.0, 0.0), "in [1e-300, 1)");
    return pair(gaussian_epsilon(mu, delta));
}

}  // namespace

void bind_special(py::module_& m) {
    m.def("ndtr", py::vectorize(ndtr), py::arg("x"));
    m.def("log_ndtri", py::vectorize(log_ndtri), py::arg("log_p"));
    m.def("gaussian_delta", &delta, py::arg("mu"), py::arg("eps"), "Certified (lower, upper) of delta(eps).");
    m.def("gaussian_epsilon", &epsilon, py::arg("mu"), py::arg("delta"), "Certified (lower, upper) of epsilon(delta).");
}
