// tightdp._testing: the contour engine of a device, run by the host.
#include "../../bindings/bind.hpp"
#include "../batch_emulation.hpp"

void bind_contour(py::module_& m) {
    using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
    using namespace py::literals;
    m.def(
        "emulate_epsilon_batch",
        [](Doubles sigma, Doubles q, Doubles steps, Doubles delta, double tolerance, int lanes) {
            if (lanes < 1 || lanes > 32) throw std::invalid_argument("lanes must be in [1, 32]");
            const py::ssize_t n = sigma.size();
            py::array_t<double> lower(n), upper(n);
            py::array_t<unsigned char> status(n);
            py::array_t<long> nodes(n), abscissae(n);
            double *lo = lower.mutable_data(), *up = upper.mutable_data();
            unsigned char* st = status.mutable_data();
            long *at = nodes.mutable_data(), *on = abscissae.mutable_data();
            {
                py::gil_scoped_release release;
                tightdp::contour::emulate_epsilon_batch(n, sigma.data(), q.data(), steps.data(), delta.data(),
                                                        tolerance, lanes, lo, up, st, at, on);
            }
            return py::make_tuple(lower, upper, status, nodes, abscissae);
        },
        "sigma"_a, "q"_a, "steps"_a, "delta"_a, "tolerance"_a, "lanes"_a);
}
