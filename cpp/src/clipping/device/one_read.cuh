// The kernels that read each row from memory once. The formulas are in clip.hpp, and the shapes in shape.hpp. The
// blocks of sliced_kernel wait for each other, so that this kernel must be launched with all blocks resident at once.
#pragma once

#include <cstdint>

#include "block.cuh"
#include "runtime/warp_team.cuh"
#include "shape.hpp"

namespace tightdp::cuda {

using namespace clipping;

__device__ inline unsigned place16(const void* p) {
    return static_cast<unsigned>(reinterpret_cast<unsigned long long>(p) & 15u);
}

// Copies `count` entries in units of `bytes` bytes. Entries before the first multiple of `bytes` are copied one by one.
// The `threads` threads of a team share the work.
template <int bytes, class T>
__device__ inline void copy_units(T* to, const T* from, std::int64_t count, int thread, int threads) {
    constexpr std::int64_t per = bytes / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t ahead = (bytes - place16(from) % bytes) % bytes / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t head = ahead < count ? ahead : count, units = (count - head) / per, done = head + units * per;
    for (std::int64_t i = thread; i < units; i += threads)
        copy_async<bytes>(to + head + i * per, from + head + i * per);
    for (std::int64_t i = thread; i < head; i += threads) to[i] = from[i];
    for (std::int64_t i = done + thread; i < count; i += threads) to[i] = from[i];
}

// Starts to copy a run of entries to shared memory, in the largest units that the alignment of both addresses allows.
// The copy is complete after a wait for the thread's batch.
template <class T>
__device__ inline void copy_run(T* to, const T* from, std::int64_t count, int thread, int threads) {
    const unsigned apart = (place16(to) - place16(from)) & 15u;
    if (apart == 0) return copy_units<16>(to, from, count, thread, threads);
    if (apart % 8 == 0) return copy_units<8>(to, from, count, thread, threads);
    if constexpr (sizeof(T) <= 4)
        if (apart % 4 == 0) return copy_units<4>(to, from, count, thread, threads);
    for (std::int64_t i = thread; i < count; i += threads) to[i] = from[i];
}

// Adds factor * entry to `sum` for every step-th row of [first, count), for one column of rows in shared memory, and
// returns the result.
template <class T>
__device__ inline double add_rows(const DeviceClip& clip, double sum, const unsigned char* column_of_row_0,
                                  std::int64_t pitch, const double* factors, int first, int count, int step,
                                  std::int64_t column) {
    TIGHTDP_UNROLL_4
    for (int r = first; r < count; r += step) {
        const double x = wide(*reinterpret_cast<const T*>(column_of_row_0 + r * pitch)), factor = factors[r];
        // A row with entries that are not finite has the factor 0, and its products would be NaN.
        if (factor > 0) sum += product(clip, transformed(clip, x, column), factor);
    }
    return sum;
}

template <class T, class Team>
__device__ inline void held_squares(const DeviceClip& clip, const HeldShape& s, const Team& team,
                                    const unsigned char* rows, int count, double* squares) {
    const int items = count * s.pieces, teams = static_cast<int>(blockDim.x) / team.size();
    // Every lane of a warp has to take part in each round. A team that has no item of its own repeats the last item.
    for (int base = 0; base < items; base += teams) {
        const int asked = base + static_cast<int>(threadIdx.x) / team.size(), item = asked < items ? asked : items - 1;
        const std::int64_t begin = item % s.pieces * HeldShape::kPiece;
        const std::int64_t end = begin + HeldShape::kPiece < s.columns ? begin + HeldShape::kPiece : s.columns;
        const T* const row = reinterpret_cast<const T*>(rows + item / s.pieces * s.pitch);
        const double square = run_squares(clip, team, row, 0, begin, end);
        if (team.lane() == 0 && asked < items) squares[item] = square;
    }
}

// Computes clipped sums of short rows. Rows are divided into groups of s.rows rows. Block b takes the groups b,
// b + blocks, ..., and writes its sums to partial[b].
template <class T>
__global__ void __launch_bounds__(HeldShape::kThreads) held_kernel(DeviceClip clip, HeldShape s, double* partial) {
    TIGHTDP_SHARED_MEMORY(memory);
    double* const sums = reinterpret_cast<double*>(memory);
    double* const squares = reinterpret_cast<double*>(memory + s.squares_at());
    double* const factors = reinterpret_cast<double*>(memory + s.factors_at());
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const std::int64_t shares = s.groups * s.columns;
    for (std::int64_t i = thread; i < shares; i += threads) sums[i] = 0;
    for (std::int64_t begin = blockIdx.x * s.rows; begin < clip.rows; begin += gridDim.x * s.rows) {
        const int count = static_cast<int>(clip.rows - begin < s.rows ? clip.rows - begin : s.rows);
        unsigned char* rows = memory + s.rows_at();
        __syncthreads();  // the rows of the last group are no longer needed
        if (s.dense) {
            const T* const from = row_of<T>(clip.segments[0], begin);
            rows += place16(from);
            copy_run(reinterpret_cast<T*>(rows), from, count * s.columns, thread, threads);
        } else {
            for (int i = 0; i < clip.segment_count; ++i) {
                const DeviceSegment& segment = clip.segments[i];
                for (int r = thread / kWarp; r < count; r += threads / kWarp)
                    copy_run(reinterpret_cast<T*>(rows + r * s.pitch) + segment.first, row_of<T>(segment, begin + r),
                             segment.columns, thread % kWarp, kWarp);
            }
        }
        close_batch();
        wait_batches<0>();
        __syncthreads();
        if (s.columns <= HeldShape::kShort)
            held_squares<T>(clip, s, LaneTeam<8>{}, rows, count, squares);
        else
            held_squares<T>(clip, s, WarpTeam{}, rows, count, squares);
        __syncthreads();
        if (thread < count) {
            double square = 0;
            for (int p = 0; p < s.pieces; ++p) square += squares[thread * s.pieces + p];
            factors[thread] = row_factor<T>(clip, begin + thread, square);
        }
        __syncthreads();
        for (std::int64_t i = thread; i < shares; i += threads) {
            const int group = s.groups == 1 ? 0 : static_cast<int>(i) / static_cast<int>(s.columns);
            const std::int64_t c = i - group * s.columns;
            sums[i] = add_rows<T>(clip, sums[i], rows + c * static_cast<std::int64_t>(sizeof(T)), s.pitch, factors,
                                  group, count, s.groups, c);
        }
    }
    __syncthreads();
    for (std::int64_t c = thread; c < s.columns; c += threads) {
        double sum = sums[c];
        for (int g = 1; g < s.groups; ++g) sum += sums[g * s.columns + c];
        partial[blockIdx.x * s.columns + c] = sum;
    }
}

// The place in a buffer of a block's columns of a row, which start with column `first`. Their address modulo 16 is the
// same as in memory, so that 16 bytes can be copied at a time for any length of rows. If the columns belong to several
// arrays, this holds for the first array.
class SlicePlace {
  public:
    __device__ SlicePlace(const DeviceClip& clip, std::int64_t first, std::int64_t size) {
        const DeviceSegment& segment = segment_of(clip, first);
        start_ = reinterpret_cast<unsigned long long>(segment.data) +
                 static_cast<unsigned long long>((first - segment.first) * size);
        stride_ = segment.stride;
    }
    template <class T>
    __device__ T* row(unsigned char* buffer_row, std::int64_t index) const {
        return reinterpret_cast<T*>(buffer_row + ((start_ + static_cast<unsigned long long>(index * stride_)) & 15u));
    }

  private:
    unsigned long long start_;
    std::int64_t stride_;
};

// Starts to copy the columns [first, first + width) of a group of rows to a buffer. All threads of the block share the
// work.
template <class T>
__device__ inline void load_slice(const DeviceClip& clip, const SliceShape& s, const SlicePlace& place,
                                  unsigned char* buffer, std::int64_t begin, std::int64_t count, std::int64_t first,
                                  std::int64_t width) {
    for (std::int64_t column = first; column < first + width;) {
        const DeviceSegment& segment = segment_of(clip, column);
        const std::int64_t beyond = segment.first + segment.columns,
                           stop = beyond < first + width ? beyond : first + width;
        for (std::int64_t r = 0; r < count; ++r)
            copy_run(place.row<T>(buffer + r * s.pitch, begin + r) + (column - first),
                     row_of<T>(segment, begin + r) + (column - segment.first), stop - column,
                     static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
        column = stop;
    }
}

// Computes clipped sums of longer rows. Rows are divided into groups of s.rows rows. A team has s.blocks blocks. Team t
// takes the groups t, t + teams, ..., and writes its sums to partial[t]. Each block of the team has the same columns of
// all these groups. The blocks exchange sums of squares through exchange[t][slot][row][block]. arrived[t][slot] is zero
// at first, and counts the blocks that have written their squares.
//
// In round g a block squares its columns of group g, while some of its warps wait for the squares of the other blocks
// for group g - 1. Then the block adds up group g - 1, and starts to load group g + 2. A slot is written again four
// rounds later. This is safe: a block in round g has seen all blocks arrive in round g - 2. Each of them arrived after
// its own round g - 3, in which the slot of group g - 4 was read for the last time.
template <class T>
__global__ void __launch_bounds__(SliceShape::kThreads)
    sliced_kernel(DeviceClip clip, SliceShape s, double* exchange, unsigned long long* arrived, double* partial) {
    TIGHTDP_SHARED_MEMORY(memory);
    double* const sums = reinterpret_cast<double*>(memory);
    double* const squares = reinterpret_cast<double*>(memory + s.squares_at());
    double* const factors = reinterpret_cast<double*>(memory + s.factors_at());
    const WarpTeam team;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x), warp = thread / kWarp;
    const int squaring = threads / kWarp - SliceShape::kFactorWarps;
    const std::int64_t in_team = blockIdx.x % s.blocks, team_index = blockIdx.x / s.blocks;
    const std::int64_t first = in_team * s.slice < clip.columns ? in_team * s.slice : clip.columns;
    const std::int64_t width = clip.columns - first < s.slice ? clip.columns - first : s.slice;
    const SlicePlace place(clip, first, sizeof(T));
    exchange += team_index * SliceShape::kSlots * s.rows * s.blocks;
    arrived += team_index * SliceShape::kSlots;
    // Only the first block of the team writes the norms.
    DeviceClip quiet = clip;
    if (in_team != 0) quiet.norms = nullptr;

    const auto begin_of = [&](std::int64_t g) { return (team_index + g * s.teams) * s.rows; };
    const auto count_of = [&](std::int64_t g) {
        const std::int64_t left = clip.rows - begin_of(g);
        return left < 0 ? 0 : left < s.rows ? left : s.rows;
    };
    const auto buffer_of = [&](std::int64_t g) {
        return memory + s.buffers_at() + g % SliceShape::kBuffers * s.rows * s.pitch;
    };
    const auto slot_of = [&](std::int64_t g) { return exchange + g % SliceShape::kSlots * s.rows * s.blocks; };
    const auto load = [&](std::int64_t g) {
        if (count_of(g) > 0) load_slice<T>(clip, s, place, buffer_of(g), begin_of(g), count_of(g), first, width);
        close_batch();
    };

    for (std::int64_t c = thread; c < width; c += threads) sums[c] = 0;
    load(0);
    load(1);
    for (std::int64_t g = 0; count_of(g) > 0 || (g > 0 && count_of(g - 1) > 0); ++g) {
        const std::int64_t count = count_of(g), last = g > 0 ? count_of(g - 1) : 0;
        wait_batches<1>();
        __syncthreads();  // group g is loaded
        if (warp < squaring) {
            for (std::int64_t item = warp; item < count * s.pieces; item += squaring) {
                const std::int64_t r = item / s.pieces, from = first + item % s.pieces * s.piece;
                const std::int64_t to = from + s.piece < first + width ? from + s.piece : first + width;
                const T* const row = place.row<T>(buffer_of(g) + r * s.pitch, begin_of(g) + r);
                const double square = run_squares(clip, team, row, first, from, to);
                if (team.lane() == 0) squares[item] = square;
            }
        } else if (last > 0) {
            const unsigned long long all =
                static_cast<unsigned long long>(((g - 1) / SliceShape::kSlots + 1) * s.blocks);
            if (team.lane() == 0) {
                while (arrivals(arrived + (g - 1) % SliceShape::kSlots) < all) idle();
                __threadfence();
            }
            __syncwarp();
            double mine = 0;
            for (std::int64_t r = warp - squaring; r < last; r += SliceShape::kFactorWarps) {
                double square = 0;
                for (std::int64_t b = team.lane(); b < s.blocks; b += kWarp)
                    square += from_other_block(slot_of(g - 1) + r * s.blocks + b);
                square = team.sum(square);
                if (team.lane() == r) mine = square;
            }
            const std::int64_t r = team.lane();
            if (r < last && r % SliceShape::kFactorWarps == warp - squaring)
                factors[r] = row_factor<T>(quiet, begin_of(g - 1) + r, mine);
        }
        __syncthreads();
        if (warp == 0) {
            if (thread < count) {
                double square = 0;
                for (int p = 0; p < s.pieces; ++p) square += squares[thread * s.pieces + p];
                slot_of(g)[thread * s.blocks + in_team] = square;
                __threadfence();
            }
            __syncwarp();
            if (thread == 0 && count > 0) {
                __threadfence();
                atomicAdd(arrived + g % SliceShape::kSlots, 1ull);
            }
        }
        for (std::int64_t c = thread; c < width && last > 0; c += threads) {
            double sum = sums[c];
            for (std::int64_t r = 0; r < last; ++r) {
                const T* const row = place.row<T>(buffer_of(g - 1) + r * s.pitch, begin_of(g - 1) + r);
                if (factors[r] > 0) sum += product(clip, transformed(clip, wide(row[c]), first + c), factors[r]);
            }
            sums[c] = sum;
        }
        __syncthreads();  // group g - 1 is added, so that its buffer is free
        load(g + 2);
    }
    for (std::int64_t c = thread; c < width; c += threads) partial[team_index * clip.columns + first + c] = sums[c];
}

}  // namespace tightdp::cuda
