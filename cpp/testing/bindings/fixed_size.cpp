// tightdp._testing: the kernels for samples of fixed size. A kernel is a distribution of privacy losses, and an
// adversary chooses one of the kernels in each step (fixed_size/kernel_iteration.hpp).
#include "../../bindings/bind.hpp"
#include "fixed_size/triangle_kernels.hpp"

void bind_testing_fixed_size(py::module_& m) {
    using namespace py::literals;
    m.def(
        "fixed_size_kernels",
        [](double mu, double q, std::size_t n, double h) {
            const std::vector<tightdp::fixed_size::Kernel> menu =
                tightdp::fixed_size::list_triangle_kernels(mu, q, n, h);
            py::array_t<double> masses({menu.size(), 2 * n + 2});
            for (std::size_t i = 0; i < menu.size(); ++i) {
                double* row = masses.mutable_data(static_cast<py::ssize_t>(i), 0);
                *std::copy(menu[i].mass.begin(), menu[i].mass.end(), row) = menu[i].infinity;
            }
            return masses;
        },
        "mu"_a, "q"_a, "n"_a, "h"_a);
}
