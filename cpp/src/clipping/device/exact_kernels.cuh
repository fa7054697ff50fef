// The kernels of the exact form. Integers add in any order, so threads share rows and columns as they like;
// what a row adds is a function of that row alone. Formulas: exact.hpp.
#pragma once

#include <cstdint>

#include "block.cuh"
#include "exact.hpp"
#include "runtime/warp_team.cuh"
#include "shape.hpp"

namespace tightdp::cuda {

using namespace clipping;

inline constexpr int kExactThreads = 256;

// Rows [begin, begin + count): squares[row - begin][tile], 16 lanes a tile.
template <class T>
__global__ void __launch_bounds__(kExactThreads)
    exact_squares_kernel(DeviceClip clip, std::int64_t tiles, std::int64_t begin, std::int64_t count, double* squares) {
    const LaneTeam<kSquareLanes> team;
    const std::int64_t in_block = blockDim.x / kSquareLanes, teams = gridDim.x * in_block, items = count * tiles;
    // Every lane of a warp takes part in every round, with the last item again where there is none for its team.
    for (std::int64_t base = blockIdx.x * in_block; base < items; base += teams) {
        const std::int64_t asked = base + threadIdx.x / kSquareLanes, item = asked < items ? asked : items - 1;
        const double square = team.sum(lane_squares<T>(clip, begin + item / tiles, item % tiles, team.lane()));
        if (team.lane() == 0 && asked < items) squares[item] = square;
    }
}

template <class T>
__global__ void exact_factors_kernel(DeviceClip clip, DeviceExact exact, std::int64_t begin, std::int64_t count,
                                     const double* squares, double* factors) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) factors[i] = exact_factor<T>(clip, exact, begin + i, squares + i * exact.tiles);
}

// Shares a group of rows among blocks: each block takes as many columns as it has threads, or all of them several
// times, and a chunk of rows.
struct ExactShare {
    std::int64_t across, rows;  // blocks side by side, rows of a chunk

    TIGHTDP_HD ExactShare(std::int64_t columns, std::int64_t count, std::int64_t blocks)
        : across(ceiling(columns, kExactThreads)), rows(ceiling(count, ceiling(blocks, across))) {}
    TIGHTDP_HD std::int64_t blocks(std::int64_t count) const { return across * ceiling(count, rows); }
};

// sums[column] += the integers of the group's rows.
template <class T>
__global__ void __launch_bounds__(kExactThreads)
    exact_sums_kernel(DeviceClip clip, ExactShare share, std::int64_t begin, std::int64_t count, const double* factors,
                      unsigned long long* sums) {
    const std::int64_t threads = blockDim.x, chunk = blockIdx.x / share.across * share.rows;
    const std::int64_t end = chunk + share.rows < count ? chunk + share.rows : count;
    // Threads beyond the columns take other rows.
    const std::int64_t steps = clip.columns < threads ? threads / clip.columns : 1;
    const std::int64_t place = blockIdx.x % share.across * threads + threadIdx.x;
    const std::int64_t step = steps > 1 ? place / clip.columns : 0, column = steps > 1 ? place % clip.columns : place;
    if (step >= steps || column >= clip.columns) return;
    const DeviceSegment& segment = segment_of(clip, column);
    unsigned long long sum = 0;
    TIGHTDP_UNROLL_4
    for (std::int64_t r = chunk + step; r < end; r += steps) {
        const double factor = factors[r], x = wide(row_of<T>(segment, begin + r)[column - segment.first]);
        // A row that is not finite has factor 0, and 0 times it would be NaN.
        if (factor != 0) sum += exact_term(clip, transformed(clip, x, column), factor);
    }
    if (sum != 0) atomicAdd(sums + column, sum);
}

// A static one a translation unit, as it is no template.
static __global__ void __launch_bounds__(kExactThreads) exact_finish_kernel(DeviceClip clip, ExactFinish finish) {
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column < clip.columns) finish_exactly(clip, finish, column);
}

}  // namespace tightdp::cuda
