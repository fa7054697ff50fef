// tightdp._testing: the contour engine of a device, run by the host.
#include "../../bindings/bind.hpp"
#include "../batch_emulation.hpp"
#include "contour/bins.hpp"
#include "contour/decay.hpp"

void bind_contour(py::module_& m) {
    using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
    using namespace py::literals;
    m.def(
        "contour_log_decay",
        [](double sigma, double q, bool add, double c, double s) {
            return tightdp::contour::Tail(sigma, q, add, c, s, 20).log_decay(s);
        },
        "sigma"_a, "q"_a, "add"_a, "c"_a, "s"_a);
    m.def(
        "contour_bin_decay",
        [](double low, double high, double q, bool add, double c, double s) {
            return tightdp::contour::BinTail({q, low, high, 1, 2}, add, c, s, 20).log_decay(s);
        },
        "low"_a, "high"_a, "q"_a, "add"_a, "c"_a, "s"_a);
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
