// The kernel that reads short rows from device memory once. A thread block holds a group of rows in shared memory while
// it computes their norms and then adds the rows. The formulas are in clip_formulas.hpp, and `HeldShape` is in
// launch_shape.hpp.
#pragma once

#include <cstdint>

#include "block_memory.cuh"
#include "launch_shape.hpp"
#include "runtime/warp_team.cuh"

namespace tightdp::cuda {

using namespace clipping;

__device__ inline unsigned held_address_modulo_16(const void* p) {
    return static_cast<unsigned>(reinterpret_cast<unsigned long long>(p) & 15u);
}

// Copies `count` entries in units of `bytes` bytes. Entries before the first whole unit or after the last one are
// copied one by one. The `threads` threads of a team share the work.
template <int bytes, class T>
__device__ inline void copy_held_units(T* to, const T* from, std::int64_t count, int thread, int threads) {
    constexpr std::int64_t per = bytes / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t ahead =
        (bytes - held_address_modulo_16(from) % bytes) % bytes / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t head = ahead < count ? ahead : count, units = (count - head) / per, done = head + units * per;
    for (std::int64_t i = thread; i < units; i += threads)
        copy_async<bytes>(to + head + i * per, from + head + i * per);
    for (std::int64_t i = thread; i < head; i += threads) to[i] = from[i];
    for (std::int64_t i = done + thread; i < count; i += threads) to[i] = from[i];
}

// Starts to copy consecutive entries to shared memory, in the largest units that the alignment of both addresses
// allows. The copy is complete after wait_batches() has returned for the copy's batch (block_memory.cuh).
template <class T>
__device__ inline void copy_held_run(T* to, const T* from, std::int64_t count, int thread, int threads) {
    const unsigned apart = (held_address_modulo_16(to) - held_address_modulo_16(from)) & 15u;
    if (apart == 0) return copy_held_units<16>(to, from, count, thread, threads);
    if (apart % 8 == 0) return copy_held_units<8>(to, from, count, thread, threads);
    if constexpr (sizeof(T) <= 4)
        if (apart % 4 == 0) return copy_held_units<4>(to, from, count, thread, threads);
    for (std::int64_t i = thread; i < count; i += threads) to[i] = from[i];
}

// Returns `sum` plus the sum of factor * entry over some rows of one column in shared memory. The rows are `first`,
// first + step, and so on, below `count`.
template <class T>
__device__ inline double add_held_rows(const DeviceClip& clip, double sum, const unsigned char* column_of_row_0,
                                       std::int64_t pitch, const double* factors, int first, int count, int step,
                                       std::int64_t column) {
    TIGHTDP_UNROLL_4
    for (int r = first; r < count; r += step) {
        const double x = widen_device_clip_entry(*reinterpret_cast<const T*>(column_of_row_0 + r * pitch)),
                     factor = factors[r];
        // A row with entries that are not finite has the factor 0, and its products would be NaN.
        if (factor > 0) sum += device_clip_product(clip, transform_clip_entry(clip, x, column), factor);
    }
    return sum;
}

// Computes the sum of squares of each row of a group. Each row is squared by a team of lanes.
template <class T>
__device__ inline void held_squares(const DeviceClip& clip, const HeldShape& s, const unsigned char* rows, int count,
                                    double* squares) {
    const LaneTeam<HeldShape::kTeam> team;
    const int teams = static_cast<int>(blockDim.x) / HeldShape::kTeam;
    // Every lane of a warp has to take part in each round. A team that has no row of its own repeats the last row.
    for (int base = 0; base < count; base += teams) {
        const int asked = base + static_cast<int>(threadIdx.x) / HeldShape::kTeam,
                  r = asked < count ? asked : count - 1;
        const T* const row = reinterpret_cast<const T*>(rows + r * s.pitch);
        const double square = sum_held_clip_squares(clip, team, row, 0, 0, s.columns);
        if (team.lane() == 0 && asked < count) squares[r] = square;
    }
}

// Computes clipped sums of short rows. Rows are divided into groups of s.rows rows. Thread block b takes the groups b,
// b + blocks, ..., and writes its sums to partial[b]. In a group, s.groups sets of threads add different rows.
template <class T>
__global__ void __launch_bounds__(HeldShape::kThreads) held_kernel(DeviceClip clip, HeldShape s, double* partial) {
    TIGHTDP_SHARED_MEMORY(memory);
    double* const sums = reinterpret_cast<double*>(memory);
    double* const squares = reinterpret_cast<double*>(memory + s.held_squares_offset());
    double* const factors = reinterpret_cast<double*>(memory + s.held_factors_offset());
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const std::int64_t shares = s.groups * s.columns;
    for (std::int64_t i = thread; i < shares; i += threads) sums[i] = 0;
    for (std::int64_t begin = blockIdx.x * s.rows; begin < clip.rows; begin += gridDim.x * s.rows) {
        const int count = static_cast<int>(clip.rows - begin < s.rows ? clip.rows - begin : s.rows);
        unsigned char* rows = memory + s.held_rows_offset();
        __syncthreads();  // no thread still reads the previous group of rows
        if (s.dense) {
            const T* const from = find_device_clip_row<T>(clip.segments[0], begin);
            rows += held_address_modulo_16(from);
            copy_held_run(reinterpret_cast<T*>(rows), from, count * s.columns, thread, threads);
        } else {
            for (int i = 0; i < clip.segment_count; ++i) {
                const DeviceSegment& segment = clip.segments[i];
                for (int r = thread / kWarp; r < count; r += threads / kWarp)
                    copy_held_run(reinterpret_cast<T*>(rows + r * s.pitch) + segment.first,
                                  find_device_clip_row<T>(segment, begin + r), segment.columns, thread % kWarp, kWarp);
            }
        }
        close_batch();
        wait_batches<0>();
        __syncthreads();
        held_squares<T>(clip, s, rows, count, squares);
        __syncthreads();
        if (thread < count) factors[thread] = device_clip_factor<T>(clip, begin + thread, squares[thread]);
        __syncthreads();
        for (std::int64_t i = thread; i < shares; i += threads) {
            const int set = s.groups == 1 ? 0 : static_cast<int>(i) / static_cast<int>(s.columns);
            const std::int64_t c = i - set * s.columns;
            sums[i] = add_held_rows<T>(clip, sums[i], rows + c * static_cast<std::int64_t>(sizeof(T)), s.pitch, factors,
                                       set, count, s.groups, c);
        }
    }
    __syncthreads();
    for (std::int64_t c = thread; c < s.columns; c += threads) {
        double sum = sums[c];
        for (int g = 1; g < s.groups; ++g) sum += sums[g * s.columns + c];
        partial[blockIdx.x * s.columns + c] = sum;
    }
}

}  // namespace tightdp::cuda
