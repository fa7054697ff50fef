#include "layer_positions.hpp"

#include <cmath>
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

template <class T>
void round_position_rows(const RoundedRows<T>& r) {
    const auto of_rows = TIGHTDP_SELECT_SIMD(layer_row_kernels)().of<T>();
    const auto of_positions = TIGHTDP_SELECT_SIMD(position_kernels)().of<T>();
    const double least = std::ldexp(1.0, r.digits - 1);
    share_layer_rows(r.rows, 2 * static_cast<double>(r.rows) * static_cast<double>(r.columns), 1,
                     [&](std::int64_t first, std::int64_t count) {
                         // A row is in a cache when it is read a second time.
                         for (std::int64_t k = first; k < first + count; ++k) {
                             const T* const x = r.x + k * r.columns;
                             of_rows.factors(x, 1, r.columns, false, least, r.factors + k, nullptr);
                             of_positions.scale_positions(
                                 {x, 1, r.columns, r.factors + k, r.most, r.out + k * r.columns});
                         }
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
template void round_position_rows(const RoundedRows<float>&);
template void round_position_rows(const RoundedRows<double>&);
template void multiply_positions(const InnerProducts<std::int16_t>&);
template void multiply_positions(const InnerProducts<std::int32_t>&);

}  // namespace tightdp
