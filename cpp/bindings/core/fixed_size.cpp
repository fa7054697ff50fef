// tightdp._core: bounds for samples of fixed size, against adversaries that choose the pair of data sets in each step.
#include "../bind.hpp"
#include "fixed_size/triangle_kernels.hpp"
#include "unlocked.hpp"

namespace {

using tightdp::fixed_size::Kernel;
using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

// Returns the result of f() as an array. The array is empty if the budget of work is spent before f() returns.
template <class F>
py::array_t<double> make_numpy_within_budget(const F& f) {
    return tightdp::bindings::make_numpy_array(tightdp::bindings::run_unlocked([&]() -> std::vector<double> {
        try {
            return f();
        } catch (const tightdp::OutOfWork&) {
            return {};
        }
    }));
}

}  // namespace

void bind_fixed_size(py::module_& m) {
    using namespace py::literals;
    m.def(
        "fixed_size_above",
        [](double mu, double q, std::size_t count, std::size_t blocks, std::size_t n, double h, double tilt,
           double beyond) {
            return make_numpy_within_budget(
                [&] {
                return tightdp::fixed_size::bound_fixed_size_deltas(mu, q, {n, h, tilt}, count, blocks, beyond);
            });
        },
        "mu"_a, "q"_a, "count"_a, "blocks"_a, "n"_a, "h"_a, "tilt"_a, "beyond"_a);
    m.def(
        "worst_below",
        [](const Array& masses, std::size_t count, double h, double tilt) {
            if (masses.ndim() != 2 || masses.shape(0) < 1 || masses.shape(1) % 2 == 0)
                throw std::invalid_argument("masses must be rows of odd length");
            const auto size = static_cast<std::size_t>(masses.shape(1));
            std::vector<Kernel> menu;
            for (py::ssize_t i = 0; i < masses.shape(0); ++i)
                menu.push_back({{masses.data(i, 0), masses.data(i, 0) + size}, 0});
            return make_numpy_within_budget(
                [&] {
                return tightdp::fixed_size::bound_worst_kernel_deltas(menu, {size / 2, h, tilt}, count, false, 0);
            });
        },
        "masses"_a, "count"_a, "h"_a, "tilt"_a);
}
