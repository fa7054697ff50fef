// tightdp._testing: where the transform puts its coefficients.
#include "../../bindings/bind.hpp"
#include "../fft_order.hpp"

namespace {

std::vector<std::size_t> real_slots(std::size_t n) {
    std::vector<std::size_t> slots{0, 1};
    for (std::size_t m = 4; m <= n; m *= 2)
        for (std::size_t i = m / 2; i < 3 * m / 4; ++i) slots.push_back(i);
    return slots;
}

py::list frequencies(std::size_t n) {
    py::list out;
    for (std::size_t i : real_slots(n)) out.append(py::make_tuple(i, tightdp::frequency(n, i)));
    return out;
}

}  // namespace

void bind_fft(py::module_& m) {
    m.def("rfft_frequencies", &frequencies, py::arg("n"),
          "(index of the real part, frequency) of each coefficient; fft/real_fft.hpp says where the "
          "imaginary part lies.");
}
