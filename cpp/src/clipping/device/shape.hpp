// Chooses between the two ways of clipped_sum.cu, the number of rows that a thread block takes at a time, and the
// layout of the block's shared memory. The code is plain arithmetic, so that tests on the host make the same choices as
// a device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "clip.hpp"

namespace tightdp::cuda {

// Properties of the device that a launch depends on.
struct Machine {
    std::int64_t processors;  // number of multiprocessors
    std::int64_t shared;      // bytes of shared memory that each of two blocks on a multiprocessor may take

    // Number of blocks that keep the device busy.
    TIGHTDP_HD std::int64_t busy() const { return 16 * processors; }
};

TIGHTDP_HD constexpr std::int64_t ceiling(std::int64_t n, std::int64_t d) {
    return (n + d - 1) / d;
}
TIGHTDP_HD constexpr std::int64_t to_multiple(std::int64_t n, std::int64_t d) {
    return ceiling(n, d) * d;
}

inline constexpr int kWarp = 32;
inline constexpr int kSumThreads = 256;

// Shares a sum over rows among thread blocks. Each block takes a chunk of rows, and as many columns as it has threads.
struct RowShare {
    std::int64_t across, rows;  // number of blocks that share the columns, and number of rows in a chunk

    TIGHTDP_HD RowShare(std::int64_t columns, std::int64_t count, std::int64_t blocks)
        : across(ceiling(columns, kSumThreads)), rows(ceiling(count, ceiling(blocks, across))) {}
    TIGHTDP_HD std::int64_t chunks(std::int64_t count) const { return ceiling(count, rows); }
    TIGHTDP_HD std::int64_t blocks(std::int64_t count) const { return across * chunks(count); }
};

// The shape of the first way: a thread block holds one group of `rows` whole rows at a time, and each multiprocessor
// has several blocks.
struct HeldShape {
    static constexpr int kThreads = 256;
    static constexpr int kMostRows = 64;               // largest number of rows of a group, which takes four barriers
    static constexpr std::int64_t kMostColumns = 256;  // longer rows are faster in the second way
    static constexpr int kTeam = 8;                    // number of lanes that compute a norm

    std::int64_t rows = 0, columns = 0, pitch = 0, blocks = 0;
    int groups = 1;      // number of sets of threads that add different rows, to sums[set][column]
    bool dense = false;  // true if rows follow each other without gaps, so that they are copied as one run

    TIGHTDP_HD std::int64_t squares_at() const { return groups * columns * 8; }
    TIGHTDP_HD std::int64_t factors_at() const { return squares_at() + rows * 8; }
    TIGHTDP_HD std::int64_t rows_at() const { return to_multiple(factors_at() + rows * 8, 16); }
    // Includes 16 spare bytes, since a dense group is placed at the same address modulo 16 as in device memory.
    TIGHTDP_HD std::int64_t bytes() const { return rows_at() + rows * pitch + 16; }
};

// Returns the shape of the first way, or a shape without blocks if the second way serves, because rows are long or few.
// `resident` returns the number of blocks of a shape that a multiprocessor takes at once.
template <class Resident>
HeldShape choose_held_shape(const clipping::DeviceClip& clip, bool dense, std::int64_t size, const Machine& machine,
                            const Resident& resident) {
    HeldShape s;
    if (clip.rows == 0 || clip.columns > HeldShape::kMostColumns) return s;
    s.columns = clip.columns;
    s.dense = dense;
    s.pitch = dense ? clip.columns * size : to_multiple(clip.columns * size, 16);
    s.groups = static_cast<int>(std::clamp<std::int64_t>(HeldShape::kThreads / clip.columns, 1, HeldShape::kMostRows));
    s.rows = std::min<std::int64_t>((machine.shared - s.rows_at() - 32) / (s.pitch + 16), HeldShape::kMostRows);
    if (s.rows < 1) return s;
    const std::int64_t blocks =
        std::min(machine.processors * std::max(std::int64_t{1}, static_cast<std::int64_t>(resident(s))),
                 ceiling(clip.rows, s.rows));
    // If there were fewer blocks, much of the device would have no work, so the second way serves.
    if (2 * blocks >= machine.processors) s.blocks = blocks;
    return s;
}

}  // namespace tightdp::cuda
