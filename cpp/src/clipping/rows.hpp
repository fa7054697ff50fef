// One row of a request at a time, where speed does not matter: rows of extreme size or weight.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "plan.hpp"
#include "tightdp/clipping/narrow_float.hpp"

namespace tightdp {

class ClipRows {
  public:
    ClipRows(const ClipRequest& request, const ClipPlan& plan) noexcept
        : r_(request), plan_(plan), size_(element_size(request.dtype)) {}

    const char* at(std::size_t row, const ClipTile& tile) const noexcept {
        const ClipSegment& segment = r_.segments[tile.segment];
        return static_cast<const char*>(segment.data) + static_cast<std::ptrdiff_t>(row) * segment.stride +
               static_cast<std::ptrdiff_t>(tile.column * size_);
    }

    // The norm of a row whose sum of squares overflowed or met a NaN, in units of the largest entry: +inf if
    // an entry is not finite or the norm exceeds the largest double. Rounded up by what a sum of that many
    // squares in a row can lose, which is more than a factor's slack allows for.
    double norm_of_large(std::size_t row) const noexcept {
        double largest = 0;
        bool finite = true;
        for (const ClipTile& tile : plan_.tiles)
            each_entry(row, tile, [&](long, double x) {
                finite = finite && std::isfinite(x);
                largest = std::max(largest, std::fabs(x));
            });
        if (!finite) return std::numeric_limits<double>::infinity();
        const int exponent = std::ilogb(largest);
        double square = 0;
        for (const ClipTile& tile : plan_.tiles)
            each_entry(row, tile, [&](long, double x) {
                const double y = std::scalbn(x, -exponent);
                square += y * y;
            });
        const double lost = static_cast<double>(plan_.columns + 8) * 0x1p-53;
        return std::scalbn(std::sqrt(square) * (1 + lost), exponent);
    }

    // sums[j] += trunc(factor * row_j), in double; the integers are under 2^62.
    void add_integers(std::size_t row, const ClipTile& tile, double factor,
                      std::int64_t* sums) const noexcept {
        each_entry(row, tile, [&](long j, double x) {
            // Unsigned, so that sums wrap.
            sums[j] =
                static_cast<std::int64_t>(static_cast<std::uint64_t>(sums[j]) +
                                          static_cast<std::uint64_t>(static_cast<std::int64_t>(factor * x)));
        });
    }

  private:
    // Visits (column in the tile, entry), the entry transformed if the request has a centre.
    template <class F>
    void each_entry(std::size_t row, const ClipTile& tile, F visit) const noexcept {
        const char* const p = at(row, tile);
        for (long j = 0; j < tile.columns; ++j) {
            double x = entry(p, j);
            const std::size_t column = tile.first + static_cast<std::size_t>(j);
            if (r_.center) x = (x - r_.center[column]) * r_.inverse_scale[column];
            visit(j, x);
        }
    }

    double entry(const char* p, long j) const noexcept {
        switch (r_.dtype) {
            case Dtype::float16:
                return clipping::to_float(reinterpret_cast<const clipping::Float16*>(p)[j]);
            case Dtype::bfloat16:
                return clipping::to_float(reinterpret_cast<const clipping::BFloat16*>(p)[j]);
            case Dtype::float32:
                return reinterpret_cast<const float*>(p)[j];
            default:
                return reinterpret_cast<const double*>(p)[j];
        }
    }

    const ClipRequest& r_;
    const ClipPlan& plan_;
    const std::size_t size_;
};

}  // namespace tightdp
