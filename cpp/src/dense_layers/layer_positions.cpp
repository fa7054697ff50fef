#include "layer_positions.hpp"

#include <type_traits>
#include <vector>

#include "layer_workers.hpp"

namespace tightdp {

template <class T, class Integer>
void scale_position_rows(const ScaledRows<T, Integer>& r) {
    const auto kernels = TIGHTDP_SELECT_SIMD(position_kernels)().of<T>();
    share_layer_rows(r.rows, static_cast<double>(r.rows) * static_cast<double>(r.columns), 1,
                     [&](std::int64_t first, std::int64_t count) {
                         kernels.scale_positions({r.x + first * r.columns, count, r.columns, r.factors + first, r.most,
                                                  r.out + first * r.columns});
                     });
}

template <class Integer>
void multiply_positions(const InnerProducts<Integer>& p) {
    const double pairs = static_cast<double>(p.positions) * static_cast<double>(p.positions);
    share_layer_rows(p.records, static_cast<double>(p.records) * static_cast<double>(p.columns) * pairs, 1,
                     [&](std::int64_t first, std::int64_t count) {
                         std::vector<std::int16_t> scratch(
                             static_cast<std::size_t>(inner_product_scratch_size(p.positions, p.columns)));
                         const InnerProducts<Integer> mine{
                             p.x + first * p.positions * p.columns,    count, p.positions, p.columns, scratch.data(),
                             p.out + first * p.positions * p.positions};
                         if constexpr (std::is_same_v<Integer, std::int16_t>)
                             TIGHTDP_SELECT_SIMD(short_inner_products)(mine);
                         else
                             TIGHTDP_SELECT_SIMD(long_inner_products)(mine);
                     });
}

template void scale_position_rows(const ScaledRows<float, std::int16_t>&);
template void scale_position_rows(const ScaledRows<float, std::int32_t>&);
template void scale_position_rows(const ScaledRows<double, std::int16_t>&);
template void scale_position_rows(const ScaledRows<double, std::int32_t>&);
template void multiply_positions(const InnerProducts<std::int16_t>&);
template void multiply_positions(const InnerProducts<std::int32_t>&);

}  // namespace tightdp
