// Handles single rows of extreme size or weight, for which speed does not matter. The threads of a device use the same
// formulas (device/clip_formulas.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "clip_plan.hpp"
#include "clipping/device/device_request.hpp"

namespace tightdp {

class ClipRows {
  public:
    explicit ClipRows(const ClipRequest& request)
        : dtype_(request.dtype),
          size_(clip_plan_element_size(request.dtype)),
          clip_(make_device_clip(request, segments_, 1)) {}
    ClipRows(const ClipRows&) = delete;
    ClipRows& operator=(const ClipRows&) = delete;

    const char* find_extreme_row(std::size_t row, const ClipTile& tile) const noexcept {
        return clipping::find_device_clip_row<char>(segments_[tile.segment], static_cast<std::int64_t>(row)) +
               tile.column * size_;
    }

    // Returns the norm of a row whose sum of squares is infinite or NaN.
    double norm_of_extreme_row(std::size_t row) const noexcept {
        return call_for_clip_tile_dtype(dtype_, [&]<class T> {
            return clipping::large_device_clip_norm<T>(clip_, static_cast<std::int64_t>(row));
        });
    }

    // Computes sums[j] += trunc(factor * x_j) modulo 2^64 for the columns j of a tile, where x is the row, after the
    // transform (clip_tile.hpp) if there is one. The integers are below 2^62. The argument -factor makes
    // exact_clip_term() compute the products in double.
    void add_extreme_row(std::size_t row, const ClipTile& tile, double factor, std::int64_t* sums) const noexcept {
        call_for_clip_tile_dtype(dtype_, [&]<class T> {
            const auto* const p = reinterpret_cast<const T*>(find_extreme_row(row, tile));
            for (std::int64_t j = 0; j < tile.columns; ++j) {
                const double x = transform_clip_entry(clip_, clipping::widen_device_clip_entry(p[j]),
                                                      static_cast<std::int64_t>(tile.first) + j);
                sums[j] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sums[j]) +
                                                    clipping::exact_clip_term(clip_, x, -factor));
            }
        });
    }

  private:
    const Dtype dtype_;
    const std::size_t size_;
    std::vector<clipping::DeviceSegment> segments_;
    const clipping::DeviceClip clip_;
};

}  // namespace tightdp
