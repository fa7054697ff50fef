#include "exact_sum.hpp"

#include <algorithm>

#include "clip_plan.hpp"
#include "parallel.hpp"
#include "tightdp/clipping/narrow_float.hpp"

namespace tightdp {
namespace {

inline double as_double(double x) noexcept {
    return x;
}
template <class T>
double as_double(T x) noexcept {
    return clipping::to_float(x);
}

// In double: products of the factor are rounded, by at most what the factor's slack allows for; the grid is a
// power of two, so the division is exact; the conversion rounds toward zero.
template <class T>
void add_row(const void* row, long n, double factor, double inverse_grid, std::int64_t* out) noexcept {
    const T* const p = static_cast<const T*>(row);
    for (long j = 0; j < n; ++j) out[j] += static_cast<std::int64_t>(as_double(p[j]) * factor * inverse_grid);
}

auto row_adder(Dtype dtype) noexcept {
    switch (dtype) {
        case Dtype::float16:
            return &add_row<clipping::Float16>;
        case Dtype::bfloat16:
            return &add_row<clipping::BFloat16>;
        case Dtype::float32:
            return &add_row<float>;
        default:
            return &add_row<double>;
    }
}

}  // namespace

void exact_sum(const ClipRequest& request, double inverse_grid, const std::vector<std::int64_t*>& outs) {
    const ClipPlan plan(request);
    const auto rounding = clipping::double_rounding(plan.longest_chain);
    const auto add = row_adder(request.dtype);
    std::vector<double> factors(request.rows);
    for (std::size_t i = 0; i < request.rows; ++i)
        factors[i] = clipping::clip_factor(request.norms[i], request.max_norm, 1.0, request.rule,
                                           request.stability, rounding);
    parallel(max_threads(), [&](int worker, int workers) {
        const Range mine = share(plan.tiles.size(), 1, worker, workers);
        for (std::size_t t = mine.begin; t < mine.end; ++t) {
            const ClipTile& tile = plan.tiles[t];
            const ClipSegment& segment = request.segments[tile.segment];
            std::int64_t* const out = outs[tile.segment] + tile.column;
            std::fill_n(out, tile.columns, 0);
            const char* row =
                static_cast<const char*>(segment.data) + tile.column * element_size(request.dtype);
            for (std::size_t i = 0; i < request.rows; ++i, row += segment.stride)
                if (factors[i] > 0) add(row, tile.columns, factors[i], inverse_grid, out);
        }
    });
}

}  // namespace tightdp
