// The kernels of the exact form. The order in which integers are added does not matter, so rows and columns may be
// shared among threads in any way. The integers that a row adds depend on this row alone. The formulas are in
// exact.hpp.
#pragma once

#include <cstdint>

#include "block.cuh"
#include "exact.hpp"
#include "runtime/warp_team.cuh"
#include "shape.hpp"

namespace tightdp::cuda {

using namespace clipping;

inline constexpr int kExactThreads = 256;

// Computes squares[row - begin][tile], the sums of squares of the tiles of the rows [begin, begin + count). Each tile
// is computed by 16 lanes.
template <class T>
__global__ void __launch_bounds__(kExactThreads)
    exact_squares_kernel(DeviceClip clip, std::int64_t tiles, std::int64_t begin, std::int64_t count, double* squares) {
    const LaneTeam<kSquareLanes> team;
    const std::int64_t in_block = blockDim.x / kSquareLanes, teams = gridDim.x * in_block, items = count * tiles;
    // Every lane of a warp has to take part in each round. A team that has no item of its own repeats the last item.
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

// Shares a group of rows among thread blocks. Each block takes a chunk of rows, and as many columns as it has
// threads. If there are fewer columns than threads, several threads take the same column.
struct ExactShare {
    std::int64_t across, rows;  // number of blocks that share the columns, and number of rows in a chunk

    TIGHTDP_HD ExactShare(std::int64_t columns, std::int64_t count, std::int64_t blocks)
        : across(ceiling(columns, kExactThreads)), rows(ceiling(count, ceiling(blocks, across))) {}
    TIGHTDP_HD std::int64_t blocks(std::int64_t count) const { return across * ceiling(count, rows); }
};

// Adds the integers of the rows of a group to sums[column].
template <class T>
__global__ void __launch_bounds__(kExactThreads)
    exact_sums_kernel(DeviceClip clip, ExactShare share, std::int64_t begin, std::int64_t count, const double* factors,
                      unsigned long long* sums) {
    const std::int64_t threads = blockDim.x, chunk = blockIdx.x / share.across * share.rows;
    const std::int64_t end = chunk + share.rows < count ? chunk + share.rows : count;
    // If there are more threads than columns, threads of the same column take different rows.
    const std::int64_t steps = clip.columns < threads ? threads / clip.columns : 1;
    const std::int64_t place = blockIdx.x % share.across * threads + threadIdx.x;
    const std::int64_t step = steps > 1 ? place / clip.columns : 0, column = steps > 1 ? place % clip.columns : place;
    if (step >= steps || column >= clip.columns) return;
    const DeviceSegment& segment = segment_of(clip, column);
    unsigned long long sum = 0;
    TIGHTDP_UNROLL_4
    for (std::int64_t r = chunk + step; r < end; r += steps) {
        const double factor = factors[r], x = wide(row_of<T>(segment, begin + r)[column - segment.first]);
        // A row with entries that are not finite has the factor 0, and its products would be NaN.
        if (factor != 0) sum += exact_term(clip, transformed(clip, x, column), factor);
    }
    if (sum != 0) atomicAdd(sums + column, sum);
}

// Writes the outputs. The kernel is static, since it is no template and several translation units include this file.
static __global__ void __launch_bounds__(kExactThreads) exact_finish_kernel(DeviceClip clip, ExactFinish finish) {
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column < clip.columns) finish_exactly(clip, finish, column);
}

}  // namespace tightdp::cuda
