// tightdp._testing: special functions over arrays.
#include "../../bindings/bind.hpp"
#include "tightdp/special/log1mexp.hpp"
#include "tightdp/special/logaddexp.hpp"
#include "tightdp/special/mills.hpp"
#include "tightdp/special/normal.hpp"
#include "tightdp/special/sampled_loss.hpp"

void bind_testing_special(py::module_& m) {
    using namespace py::literals;
    using namespace tightdp;
    m.def("mills_ratio", py::vectorize(mills_ratio), "x"_a);
    m.def("mills_slope", py::vectorize(mills_slope), "x"_a);
    m.def("exp_half_square", py::vectorize(exp_half_square), "x"_a, "rest"_a);
    m.def("log_ndtr", py::vectorize(log_ndtr), "x"_a);
    m.def("log1mexp", py::vectorize(log1mexp), "x"_a);
    m.def("logaddexp", py::vectorize(logaddexp), "a"_a, "b"_a);
    m.def("sampled_loss", py::vectorize(sampled_loss), "t"_a, "q"_a);
    m.def("sampled_loss_inverse", py::vectorize(sampled_loss_inverse), "y"_a, "q"_a);
}
