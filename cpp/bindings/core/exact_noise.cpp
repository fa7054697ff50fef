// tightdp._core: exact integer noise. The file python/tightdp/clipping_and_noise/exact_noise.py checks the arguments.
#include "../bind.hpp"
#include "../draw_limits.hpp"
#include "../sealed_stream.hpp"
#include "random/discrete_noise.hpp"
#include "random/rounded_normal.hpp"
#include "unlocked.hpp"

namespace {

using tightdp::bindings::SealedStream;
using Integers = py::array_t<std::int64_t, py::array::c_style>;

template <auto add>
void add_draws_to_numpy(const SealedStream& stream, std::uint64_t numerator, std::uint64_t denominator, Integers out) {
    std::int64_t* const data = out.mutable_data();
    const auto n = static_cast<std::size_t>(out.size());
    tightdp::bindings::run_unlocked([&] { add(*stream, numerator, denominator, n, data); });
}

void add_rounded_normals(const SealedStream& stream, const py::array_t<double, py::array::c_style>& sigma, Integers out,
                         std::uint64_t first) {
    std::int64_t* const data = out.mutable_data();
    const auto n = static_cast<std::size_t>(out.size()), sigmas = static_cast<std::size_t>(sigma.size());
    const double* const s = sigma.data();
    if (sigma.ndim() > 0 && sigmas != n) throw std::invalid_argument("sigma must be one number or one for each value");
    for (std::size_t i = 0; i < sigmas; ++i)
        if (!(s[i] >= 0 && s[i] <= tightdp::bindings::kLargestSigma))
            throw std::invalid_argument("sigma must be in [0, 2^39]");
    if (!tightdp::bindings::is_within_draw_limits(first, n)) throw std::invalid_argument("a stream has 2^48 draws");
    tightdp::bindings::run_unlocked(
        [&] { tightdp::add_rounded_normals(*stream, {s, sigma.ndim() > 0}, first, n, data); });
}

}  // namespace

void bind_exact_noise(py::module_& m) {
    const auto def = [&](const char* name, auto function) {
        m.def(name, function, py::arg("stream"), py::arg("numerator"), py::arg("denominator"),
              py::arg("out").noconvert());
    };
    def("add_discrete_gaussian", &add_draws_to_numpy<&tightdp::add_discrete_gaussian>);
    def("add_discrete_laplace", &add_draws_to_numpy<&tightdp::add_discrete_laplace>);
    m.def("add_rounded_normals", &add_rounded_normals, py::arg("stream"), py::arg("sigma"), py::arg("out").noconvert(),
          py::arg("first") = 0);
}
