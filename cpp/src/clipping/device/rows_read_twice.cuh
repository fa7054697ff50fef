// The kernels that read rows from memory twice: first for their norms and then for their sums. The formulas are in
// clip_formulas.hpp. Norms are computed from pieces, each of which is kDevicePiece columns of a row. Sums are computed
// from chunks, each of which is share.rows consecutive rows (RowShare).
#pragma once

#include <cstdint>

#include "block_memory.cuh"
#include "launch_shape.hpp"
#include "runtime/warp_team.cuh"

namespace tightdp::cuda {

using namespace clipping;

// Computes squares[row][piece], the sum of squares of each piece of each row. One warp computes one sum.
template <class T>
__global__ void __launch_bounds__(kSumThreads) squares_kernel(DeviceClip clip, std::int64_t pieces, double* squares) {
    const WarpTeam team;
    const std::int64_t warps = gridDim.x * std::int64_t{kSumThreads / kWarp};
    for (std::int64_t i = blockIdx.x * std::int64_t{kSumThreads / kWarp} + threadIdx.x / kWarp; i < clip.rows * pieces;
         i += warps) {
        const double square = sum_device_clip_piece_squares<T>(clip, team, i / pieces, i % pieces * kDevicePiece);
        if (team.lane() == 0) squares[i] = square;
    }
}

// Computes the clip factor of each row. One warp adds the sums of a row's pieces. The rounding error of a row's sum is
// bounded by the number of additions through which a square passes. device_clip_chain() returns this number for pieces
// that are added one after the other. In the order of this kernel the number is no larger, as adding 0 has no error.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    factors_kernel(DeviceClip clip, std::int64_t pieces, const double* squares, double* factors) {
    const WarpTeam team;
    const std::int64_t row = blockIdx.x * std::int64_t{kSumThreads / kWarp} + threadIdx.x / kWarp;
    if (row >= clip.rows) return;
    double square = 0;
    for (std::int64_t p = team.lane(); p < pieces; p += kWarp) square += squares[row * pieces + p];
    square = team.sum(square);
    if (team.lane() == 0) factors[row] = device_clip_factor<T>(clip, row, square);
}

// Computes partial[chunk][column], the sum of the clipped rows of a chunk. One thread adds one column of a chunk.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sums_kernel(DeviceClip clip, RowShare share, const double* factors, double* partial) {
    const std::int64_t chunk = blockIdx.x / share.across, begin = chunk * share.rows;
    const std::int64_t end = begin + share.rows < clip.rows ? begin + share.rows : clip.rows;
    const std::int64_t column = blockIdx.x % share.across * kSumThreads + threadIdx.x;
    if (column >= clip.columns) return;
    const DeviceSegment& segment = find_device_clip_segment(clip, column);
    const std::int64_t stride = segment.stride;
    const char* at = reinterpret_cast<const char*>(find_device_clip_row<T>(segment, begin) + (column - segment.first));
    double sum = 0;
    TIGHTDP_UNROLL_4
    for (std::int64_t r = begin; r < end; ++r, at += stride) {
        const double x = widen_device_clip_entry(*reinterpret_cast<const T*>(at)), factor = factors[r];
        // A row with entries that are not finite has the factor 0. The row is skipped, since its products would be NaN.
        if (factor > 0) sum += device_clip_product(clip, transform_clip_entry(clip, x, column), factor);
    }
    partial[chunk * clip.columns + column] = sum;
}

}  // namespace tightdp::cuda
