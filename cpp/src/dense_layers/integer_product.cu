// Adds products of integer weights and integer inputs on a device, for one chunk of records after the other
// (docs/theory/exact-products.md, section 8).
#include "dense_layers/device/product_launch.cuh"
#include "product_sum.cuda.hpp"

namespace tightdp::cuda {

void add_integer_product(const IntegerProduct& p, cudaStream_t stream) {
    if (p.rows == 0 || p.outputs == 0 || p.columns == 0) return;
    const std::int64_t chunk = choose_device_product_chunk(p.rows, p.outputs, p.columns, kDevicePackedBytes);
    for (std::int64_t first = 0; first < p.rows; first += chunk) {
        const std::int64_t count = std::min(chunk, p.rows - first);
        launch_device_product(IntegerMatrix<std::int32_t>{p.w + first * p.outputs, count, p.outputs},
                                   IntegerMatrix<std::int16_t>{p.q + first * p.columns, count, p.columns}, p.sums,
                                   stream);
    }
}

}  // namespace tightdp::cuda
