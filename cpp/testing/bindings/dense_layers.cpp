// tightdp._testing: runs a device's kernels for products on the host.
#include "../../bindings/bind.hpp"
#include "../kernel_emulation.hpp"

namespace {

template <class T>
using Matrix = py::array_t<T, py::array::c_style>;

// A chunk of records as (number of thread blocks, number of stages, largest number of stages in a block). A stage is
// the records that a block copies to shared memory at a time.
using Chunk = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Chunk testing_chunk(const tightdp::cuda::ProductShares& s) {
    return {s.count_launch_blocks(), s.stages, s.share};
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
        found.push_back(testing_chunk(s));
    return found;
}

// A layer as (inputs, errors, totals).
template <class T>
using Layer = std::tuple<Matrix<T>, Matrix<T>, Matrix<std::int64_t>>;

template <class T>
void emulate_product_sum(std::vector<Layer<T>> layers, double bound, double inverse_grid,
                         const std::optional<Matrix<std::uint8_t>>& taken, const std::optional<Matrix<double>>& bounds,
                         std::int64_t processors, std::int64_t chunk) {
    tightdp::ProductSum r{};
    r.rows = std::get<0>(layers.at(0)).shape(0);
    r.bound = bound, r.inverse_grid = inverse_grid;
    r.taken = taken ? taken->data() : nullptr;
    r.bounds = bounds ? bounds->data() : nullptr;
    for (auto& [x, errors, totals] : layers) {
        tightdp::DenseLayer layer{};
        layer.inputs = x.data(), layer.errors = errors.data();
        layer.columns = x.shape(1), layer.outputs = errors.shape(1);
        r.layers.push_back(layer);
        r.totals.push_back(totals.mutable_data());
    }
    tightdp::emulate_product_sum(r, sizeof(T) == 8, processors, chunk);
}

}  // namespace

void bind_testing_dense_layers(py::module_& m) {
    using namespace py::literals;
    m.def("emulate_integer_product", &emulate_integer_product, "w"_a.noconvert(), "q"_a.noconvert(),
          "sums"_a.noconvert(), "processors"_a, "packed_bytes"_a, "three"_a);
    const auto bind_sum = [&](auto function) {
        m.def("emulate_product_sum", function, "layers"_a.noconvert(), "bound"_a, "inverse_grid"_a, "taken"_a,
              "bounds"_a, "processors"_a, "chunk"_a);
    };
    bind_sum(&emulate_product_sum<float>);
    bind_sum(&emulate_product_sum<double>);
    m.def("share_integer_product", [](std::int64_t rows, std::int64_t outputs, std::int64_t columns,
                                      std::int64_t processors) {
        const std::int64_t chunk =
            tightdp::cuda::choose_device_product_chunk(rows, outputs, columns, tightdp::cuda::kDevicePackedBytes);
        return testing_chunk(tightdp::cuda::share_product_among_blocks(std::min(rows, chunk), outputs, columns, processors));
    });
}
