// The kernels of the exact form of clipped sums, in which rows become integers that are added without rounding
// (clipping/clipped_sum.hpp). The order in which integers are added does not matter, so rows and columns may be shared
// among threads in any way. The integers that a row adds depend on this row alone. The formulas are in
// exact_clip_formulas.hpp.
#pragma once

#include <cstdint>

#include "block_memory.cuh"
#include "exact_clip_formulas.hpp"
#include "launch_shape.hpp"
#include "runtime/warp_team.cuh"

namespace tightdp::cuda {

using namespace clipping;

// Computes squares[row][tile], the sum of squares of each tile of each row. Sixteen lanes compute one sum.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    exact_squares_kernel(DeviceClip clip, std::int64_t tiles, double* squares) {
    const LaneTeam<kSquareLanes> team;
    const std::int64_t in_block = blockDim.x / kSquareLanes, teams = gridDim.x * in_block, items = clip.rows * tiles;
    // Every lane of a warp has to take part in each round. A team of lanes that has no item of its own repeats the last
    // item.
    for (std::int64_t base = blockIdx.x * in_block; base < items; base += teams) {
        const std::int64_t asked = base + threadIdx.x / kSquareLanes, item = asked < items ? asked : items - 1;
        const double square = team.sum(sum_exact_clip_squares<T>(clip, item / tiles, item % tiles, team.lane()));
        if (team.lane() == 0 && asked < items) squares[item] = square;
    }
}

template <class T>
__global__ void exact_factors_kernel(DeviceClip clip, DeviceExact exact, const double* squares, double* factors) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row < clip.rows) factors[row] = exact_device_clip_factor<T>(clip, exact, row, squares + row * exact.tiles);
}

// Adds the integers of each column to sums[column]. Each block takes a chunk of rows, and as many columns as it has
// threads.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    exact_sums_kernel(DeviceClip clip, RowShare share, const double* factors, unsigned long long* sums) {
    const std::int64_t threads = blockDim.x, chunk = blockIdx.x / share.across * share.rows;
    const std::int64_t end = chunk + share.rows < clip.rows ? chunk + share.rows : clip.rows;
    // If there are more threads than columns, threads of the same column take different rows.
    const std::int64_t steps = clip.columns < threads ? threads / clip.columns : 1;
    const std::int64_t place = blockIdx.x % share.across * threads + threadIdx.x;
    const std::int64_t step = steps > 1 ? place / clip.columns : 0, column = steps > 1 ? place % clip.columns : place;
    if (step >= steps || column >= clip.columns) return;
    const DeviceSegment& segment = find_device_clip_segment(clip, column);
    const std::int64_t stride = steps * segment.stride;
    const char* at = reinterpret_cast<const char*>(find_device_clip_row<T>(segment, chunk + step) + (column - segment.first));
    unsigned long long sum = 0;
    TIGHTDP_UNROLL_4
    for (std::int64_t r = chunk + step; r < end; r += steps, at += stride) {
        const double factor = factors[r], x = widen_device_clip_entry(*reinterpret_cast<const T*>(at));
        // A row with entries that are not finite has the factor 0, and its products would be NaN.
        if (factor != 0) sum += exact_clip_term(clip, transform_clip_entry(clip, x, column), factor);
    }
    if (sum != 0) atomicAdd(sums + column, sum);
}

// Writes the outputs. The kernel is static, since it is no template and several translation units include this file.
static __global__ void __launch_bounds__(kSumThreads) exact_finish_kernel(DeviceClip clip, ExactFinish finish) {
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column < clip.columns) finish_exact_clip_column(clip, finish, column);
}

}  // namespace tightdp::cuda
