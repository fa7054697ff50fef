// Adds gradients of layers with one output: multiplies each record's row of inputs by its weight, truncates the entries
// to integers, and adds them (docs/theory/exact-products.md, section 7).
#include "product_sum.simd.hpp"

#include "layer_vectors.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// Converts a double x that holds an integer to this integer modulo 2^64. Precondition: |x| < 2^51.
TIGHTDP_VINLINE std::uint64_t integer_of_layer_sum(double x) {
    return __builtin_bit_cast(std::uint64_t, x + kNearest) - __builtin_bit_cast(std::uint64_t, kNearest);
}

// Adds one row after the other to sums that stay in the first-level cache.
template <class T>
void add_layer_rows(const RowBlock<T>& b) {
    constexpr std::int64_t kStrip = 1024;
    double sums[kStrip];
    for (std::int64_t j = 0; j < b.columns; j += kStrip) {
        const std::int64_t width = b.columns - j < kStrip ? b.columns - j : kStrip;
        for (std::int64_t i = 0; i < width; ++i) sums[i] = 0;
        for (std::int64_t k = 0; k < b.records; ++k) {
            const double w = b.weights[k];
            const T* const x = b.x + k * b.x_stride + j;
            if (!(b.rounding_factors[k] > 0) || w == 0) continue;
            for (std::int64_t i = 0; i < width; ++i)
                sums[i] += static_cast<double>(static_cast<std::int32_t>(static_cast<double>(x[i]) * w));
        }
        auto* const totals = reinterpret_cast<std::uint64_t*>(b.totals + j);
        for (std::int64_t i = 0; i < width; ++i) totals[i] += integer_of_layer_sum(sums[i]);
    }
}

}  // namespace

ForBothTypes<RowSum> layer_row_sum() {
    return {{&add_layer_rows<float>}, {&add_layer_rows<double>}};
}

}  // namespace tightdp::TIGHTDP_ISA
