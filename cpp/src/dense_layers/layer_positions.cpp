#include "layer_positions.hpp"

#include <type_traits>
#include <vector>

#include "clipping/clip_tile.hpp"
#include "layer_workers.hpp"

namespace tightdp {
namespace {

// Calls body(first, count) on several threads, each with its share of n items.
template <class Body>
void share_position_records(std::int64_t n, double multiplications, const Body& body) {
    parallel(choose_layer_workers(multiplications), [&](int worker, int workers) {
        const Range mine = share(static_cast<std::size_t>(n), 1, worker, workers);
        if (mine.begin < mine.end)
            body(static_cast<std::int64_t>(mine.begin), static_cast<std::int64_t>(mine.end - mine.begin));
    });
}

}  // namespace

template <class T, class Integer>
void scale_position_rows(const ScaledRows<T, Integer>& r) {
    const auto kernels = TIGHTDP_SELECT_SIMD(position_kernels)().of<T>();
    share_position_records(r.rows, static_cast<double>(r.rows) * static_cast<double>(r.columns),
              [&](std::int64_t first, std::int64_t count) {
                  kernels.scale_positions({r.x + first * r.columns, count, r.columns, r.factors + first, r.most,
                                 r.out + first * r.columns});
              });
}

template <class Integer>
void multiply_positions(const InnerProducts<Integer>& p) {
    const double pairs = static_cast<double>(p.positions) * static_cast<double>(p.positions);
    share_position_records(p.records, static_cast<double>(p.records) * static_cast<double>(p.columns) * pairs,
              [&](std::int64_t first, std::int64_t count) {
                  std::vector<std::int16_t> scratch(
                      static_cast<std::size_t>(inner_product_scratch_size(p.positions, p.columns)));
                  const InnerProducts<Integer> mine{p.x + first * p.positions * p.columns,
                                                    count,
                                                    p.positions,
                                                    p.columns,
                                                    scratch.data(),
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
