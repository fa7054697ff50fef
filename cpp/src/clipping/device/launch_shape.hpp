// Chooses between the two ways in which clipped_sum.cu computes a sum. In the first way, a thread block holds rows in
// shared memory (held_rows.cuh). In the second way, rows are read twice (rows_read_twice.cuh). For the first way, this
// file also chooses the number of rows that a block takes at a time, and the layout of the block's shared memory. The
// code is plain arithmetic, so that tests on the host make the same choices as a device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "clip_formulas.hpp"

namespace tightdp::cuda {

// Properties of the device that a launch depends on.
struct Machine {
    std::int64_t processors;  // number of multiprocessors
    std::int64_t shared;      // bytes of shared memory that a block may take if two blocks share a multiprocessor

    // Number of blocks that keep the device busy.
    TIGHTDP_HD std::int64_t busy_device_blocks() const { return 16 * processors; }
};

TIGHTDP_HD constexpr std::int64_t ceiling_quotient(std::int64_t n, std::int64_t d) {
    return (n + d - 1) / d;
}
TIGHTDP_HD constexpr std::int64_t round_up_launch_bytes(std::int64_t n, std::int64_t d) {
    return ceiling_quotient(n, d) * d;
}

inline constexpr int kWarp = 32;
inline constexpr int kSumThreads = 256;

// Shares a sum over rows among thread blocks. Each block takes a chunk of rows, and as many columns as it has threads.
struct RowShare {
    std::int64_t across, rows;  // number of blocks that share the columns, and number of rows in a chunk

    TIGHTDP_HD RowShare(std::int64_t columns, std::int64_t count, std::int64_t blocks)
        : across(ceiling_quotient(columns, kSumThreads)),
          rows(ceiling_quotient(count, ceiling_quotient(blocks, across))) {}
    TIGHTDP_HD std::int64_t count_clip_launch_chunks(std::int64_t count) const { return ceiling_quotient(count, rows); }
    TIGHTDP_HD std::int64_t count_launch_blocks(std::int64_t count) const {
        return across * count_clip_launch_chunks(count);
    }
};

// The shape of the first way: a thread block holds one group of `rows` whole rows at a time, and each multiprocessor
// has several blocks.
struct HeldShape {
    static constexpr int kThreads = 256;
    // Largest number of rows of a group. Each group costs four barriers.
    static constexpr int kMostRows = 64;
    static constexpr std::int64_t kMostColumns = 256;  // longer rows are faster in the second way
    static constexpr int kTeam = 8;                    // number of lanes that compute a norm

    // Number of rows of a group, number of columns, distance of rows in shared memory in bytes, and number of blocks.
    std::int64_t rows = 0, columns = 0, pitch = 0, blocks = 0;
    // Number of sets of threads. The sets add different rows of a group, each set to its own sums[set][column].
    int groups = 1;
    bool dense = false;  // true if rows follow each other without gaps, so that they are copied as one run

    TIGHTDP_HD std::int64_t held_squares_offset() const { return groups * columns * 8; }
    TIGHTDP_HD std::int64_t held_factors_offset() const { return held_squares_offset() + rows * 8; }
    TIGHTDP_HD std::int64_t held_rows_offset() const {
        return round_up_launch_bytes(held_factors_offset() + rows * 8, 16);
    }
    // A dense group begins at the same address modulo 16 in shared memory as in device memory. The 16 spare bytes leave
    // room for this.
    TIGHTDP_HD std::int64_t held_bytes() const { return held_rows_offset() + rows * pitch + 16; }
};

// Returns the shape of the first way. If rows are long or few, the second way must be used, and the shape that is
// returned has no blocks. resident(shape) is the number of blocks of this shape that a multiprocessor runs at once.
template <class Resident>
HeldShape choose_held_shape(const clipping::DeviceClip& clip, bool dense, std::int64_t size, const Machine& machine,
                            const Resident& resident) {
    HeldShape s;
    if (clip.rows == 0 || clip.columns > HeldShape::kMostColumns) return s;
    s.columns = clip.columns;
    s.dense = dense;
    s.pitch = dense ? clip.columns * size : round_up_launch_bytes(clip.columns * size, 16);
    s.groups = static_cast<int>(std::clamp<std::int64_t>(HeldShape::kThreads / clip.columns, 1, HeldShape::kMostRows));
    s.rows =
        std::min<std::int64_t>((machine.shared - s.held_rows_offset() - 32) / (s.pitch + 16), HeldShape::kMostRows);
    if (s.rows < 1) return s;
    const std::int64_t blocks =
        std::min(machine.processors * std::max(std::int64_t{1}, static_cast<std::int64_t>(resident(s))),
                 ceiling_quotient(clip.rows, s.rows));
    // The first way is chosen only if its blocks give work to at least half of the multiprocessors.
    if (2 * blocks >= machine.processors) s.blocks = blocks;
    return s;
}

}  // namespace tightdp::cuda
