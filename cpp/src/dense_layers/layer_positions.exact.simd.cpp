// Rounds rows of floats to integers (docs/theory/exact-products.md, section 9).
#include "layer_positions.simd.hpp"

#include "layer_vectors.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

template <class T, class Integer>
void scale_layer_positions(const ScaledRows<T, Integer>& r) {
    const double most = static_cast<double>(r.most);
    for (std::int64_t k = 0; k < r.rows; ++k) {
        const T* __restrict x = r.x + k * r.columns;
        Integer* __restrict out = r.out + k * r.columns;
        const double factor = r.factors[k];
        if (!(factor > 0)) {
            for (std::int64_t j = 0; j < r.columns; ++j) out[j] = 0;
            continue;
        }
        for (std::int64_t j = 0; j < r.columns; ++j) {
            const double scaled = static_cast<double>(x[j]) * factor, up = scaled > -most ? scaled : -most;
            out[j] = static_cast<Integer>(static_cast<std::int32_t>(round_layer_number(up < most ? up : most)));
        }
    }
}

}  // namespace

ForBothTypes<PositionKernels> position_kernels() {
    return {{&scale_layer_positions<float, std::int16_t>, &scale_layer_positions<float, std::int32_t>},
            {&scale_layer_positions<double, std::int16_t>, &scale_layer_positions<double, std::int32_t>}};
}

}  // namespace tightdp::TIGHTDP_ISA
