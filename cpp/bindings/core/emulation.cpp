// tightdp._core: what a device computes, computed by the host, and rare branches made common, for tests.
#include "../../testing/batch_emulation.hpp"
#include "../../testing/rounded_emulation.hpp"
#include "../bind.hpp"
#include "../sealed_stream.hpp"

void bind_emulation(py::module_& m) {
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
    m.def(
        "rounded_normals_from",
        [](const tightdp::bindings::SealedStream& stream, double sigma, int first_bits,
           py::array_t<std::int64_t, py::array::c_style> out) {
            std::int64_t* const data = out.mutable_data();
            const auto n = static_cast<std::size_t>(out.size());
            py::gil_scoped_release release;
            return tightdp::rounded_normals_from(*stream, sigma, first_bits, n, data);
        },
        "stream"_a, "sigma"_a, "first_bits"_a, "out"_a.noconvert());
    m.def(
        "rounded_pair_of_words",
        [](const tightdp::bindings::SealedStream& stream, std::uint64_t pair, const std::array<std::uint32_t, 4>& words,
           double sigma) { return tightdp::rounded_pair_of_words(*stream, pair, words, sigma); },
        "stream"_a, "pair"_a, "words"_a, "sigma"_a);
    m.def("settled_by", &tightdp::settled_by, "sigma"_a, "sine"_a, "x"_a, "y"_a);
}
