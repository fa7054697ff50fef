// tightdp._testing: integer products by the kernels of a device, which run on the host.
#include "../../bindings/bind.hpp"
#include "../kernel_emulation.hpp"

namespace {

template <class T>
using Matrix = py::array_t<T, py::array::c_style>;

// A chunk of records as (blocks of the product, stages of the chunk, stages of a block at most).
using Chunk = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Chunk describe(const tightdp::cuda::ProductShares& s) {
    return {s.blocks(), s.stages, s.share};
}

std::vector<Chunk> emulate_integer_product(const Matrix<std::int32_t>& w, const Matrix<std::int16_t>& q,
                                           Matrix<std::int64_t> sums, std::int64_t processors,
                                           std::int64_t packed_bytes, bool three) {
    if (w.shape(0) != q.shape(0) || sums.shape(0) != w.shape(1) || sums.shape(1) != q.shape(1))
        throw py::value_error("the shapes of w, q and sums do not fit");
    const tightdp::IntegerProduct p{
        w.data(), q.data(), w.shape(0), w.shape(1), q.shape(1), tightdp::kLargestIntegerProduct, sums.mutable_data()};
    std::vector<Chunk> found;
    for (const auto& s : tightdp::emulate_integer_product(p, processors, packed_bytes, three))
        found.push_back(describe(s));
    return found;
}

}  // namespace

void bind_dense(py::module_& m) {
    using namespace py::literals;
    m.def("emulate_integer_product", &emulate_integer_product, "w"_a.noconvert(), "q"_a.noconvert(),
          "sums"_a.noconvert(), "processors"_a, "packed_bytes"_a, "three"_a);
    m.def("share_integer_product",
          [](std::int64_t rows, std::int64_t outputs, std::int64_t columns, std::int64_t processors) {
              return describe(
                  tightdp::cuda::share_product(rows, outputs, columns, processors, tightdp::cuda::kDevicePackedBytes));
          });
}
