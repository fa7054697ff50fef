// Shapes that share out rows on a device: the choice among three ways, the number of rows and columns that a block
// takes at a time, and the layout of its shared memory. Plain arithmetic, so that the host's tests choose as a device
// does.
#pragma once

#include <algorithm>
#include <cstdint>

#include "clip.hpp"

namespace tightdp::cuda {

// Properties of the device that a launch depends on.
struct Machine {
    std::int64_t processors;
    std::int64_t half;   // bytes of shared memory a block may take so that two are resident
    std::int64_t whole;  // bytes a block may take alone
    bool grid;           // blocks of one launch may wait for each other
    // Bytes below which the plain way's launches take less time than blocks that wait for each other.
    std::int64_t worth_waiting = 1 << 20;
};

TIGHTDP_HD constexpr std::int64_t ceiling(std::int64_t n, std::int64_t d) {
    return (n + d - 1) / d;
}
TIGHTDP_HD constexpr std::int64_t to_multiple(std::int64_t n, std::int64_t d) {
    return ceiling(n, d) * d;
}

inline constexpr int kWarp = 32;

// --- Short rows: a block holds groups of whole rows, several blocks a multiprocessor.

struct HeldShape {
    static constexpr int kThreads = 256;
    static constexpr int kMostRows = 64;          // short rows need many to be worth a group's four barriers
    static constexpr int kLeastRows = 8;          // fewer leave warps without a row
    static constexpr std::int64_t kPiece = 1024;  // columns a team squares at a time
    static constexpr std::int64_t kShort = 256;   // columns up to which eight lanes take a row's norm instead of 32

    std::int64_t rows = 0, columns = 0, pitch = 0, blocks = 0;
    int pieces = 1;
    int groups = 1;      // threads beyond the columns take other rows: sums[group][column]
    bool dense = false;  // rows follow each other without gaps, and are copied as one run

    TIGHTDP_HD std::int64_t squares_at() const { return groups * columns * 8; }
    TIGHTDP_HD std::int64_t factors_at() const { return squares_at() + rows * pieces * 8; }
    TIGHTDP_HD std::int64_t rows_at() const { return to_multiple(factors_at() + rows * 8, 16); }
    // 16 more: a dense group starts at the same place within 16 bytes as in memory.
    TIGHTDP_HD std::int64_t bytes() const { return rows_at() + rows * pitch + 16; }
};

inline HeldShape held_shape(const clipping::DeviceClip& clip, bool dense, std::int64_t size, const Machine& machine) {
    HeldShape s;
    s.columns = clip.columns;
    s.dense = dense;
    s.pitch = dense ? clip.columns * size : to_multiple(clip.columns * size, 16);
    s.pieces = static_cast<int>(std::min<std::int64_t>(ceiling(clip.columns, HeldShape::kPiece), 1 << 20));
    s.groups = static_cast<int>(std::clamp<std::int64_t>(HeldShape::kThreads / clip.columns, 1, HeldShape::kMostRows));
    s.rows =
        std::min<std::int64_t>((machine.half - s.rows_at() - 32) / (s.pitch + 8 * s.pieces + 8), HeldShape::kMostRows);
    return s;
}

// --- Longer rows: teams of blocks, each block with its own columns of every row of its team.

struct SliceShape {
    static constexpr int kThreads = 768;    // 80 registers each: with 1024 some would spill
    static constexpr int kFactorWarps = 4;  // take the factors of a group while the others square the next
    static constexpr int kMostRows = 32;    // one warp publishes them
    static constexpr int kBuffers = 3;      // a group each: being added, squared, loaded
    static constexpr int kSlots = 4;        // of the exchange: see sliced_kernel

    std::int64_t rows = 0, slice = 0, pitch = 0;  // rows of a group, columns of a block, bytes of a row's slice
    std::int64_t blocks = 0, teams = 0;           // blocks of a team
    std::int64_t piece = 0;
    int pieces = 1, threads = kThreads;

    TIGHTDP_HD std::int64_t squares_at() const { return slice * 8; }
    TIGHTDP_HD std::int64_t factors_at() const { return squares_at() + rows * pieces * 8; }
    TIGHTDP_HD std::int64_t buffers_at() const { return to_multiple(factors_at() + rows * 8, 16); }
    TIGHTDP_HD std::int64_t bytes() const { return buffers_at() + kBuffers * rows * pitch; }
    // Doubles of the exchange, counters of arrivals.
    TIGHTDP_HD std::int64_t exchange() const { return teams * kSlots * rows * blocks; }
    TIGHTDP_HD std::int64_t counters() const { return teams * kSlots; }
    // Additions that a square goes through: a lane's share, its warp, the pieces, the blocks.
    TIGHTDP_HD std::int64_t chain() const { return ceiling(piece, kWarp) + 5 + pieces + ceiling(blocks, kWarp) + 5; }
};

// Chooses the shape of the second way; rows is 0 if it does not fit.
inline SliceShape slice_shape(const clipping::DeviceClip& clip, std::int64_t size, const Machine& machine,
                              int threads = SliceShape::kThreads) {
    SliceShape s;
    s.threads = threads;
    const std::int64_t squaring = threads / kWarp - SliceShape::kFactorWarps;
    const auto slices = [&](std::int64_t blocks, std::int64_t rows) {
        s.blocks = blocks;
        s.slice = to_multiple(ceiling(clip.columns, blocks), kWarp);
        // A column's place within 16 bytes is that of the row's start: see copy_run.
        s.pitch = to_multiple(s.slice * size, 16) + 16;
        s.pieces = static_cast<int>(std::clamp(squaring / rows, std::int64_t{1}, ceiling(s.slice, 4 * kWarp)));
        s.piece = to_multiple(ceiling(s.slice, s.pieces), kWarp);
        s.rows = rows;
        return s.bytes() <= machine.whole;
    };
    const auto most_rows = [&](std::int64_t blocks) {
        std::int64_t rows = std::min<std::int64_t>(SliceShape::kMostRows, clip.rows);
        while (rows > 0 && !slices(blocks, rows)) --rows;
        return rows;
    };
    // The team has as few blocks as leave four rows to a group, else two, else one.
    for (const std::int64_t wanted : {std::int64_t{4}, std::int64_t{2}, std::int64_t{1}}) {
        if (clip.rows < wanted || !slices(machine.processors, wanted)) continue;
        std::int64_t low = 1, high = machine.processors;
        while (low < high) {
            const std::int64_t middle = (low + high) / 2;
            if (slices(middle, wanted))
                high = middle;
            else
                low = middle + 1;
        }
        // No more teams than groups; the blocks left over join teams.
        const std::int64_t teams =
            std::clamp(ceiling(clip.rows, most_rows(low)), std::int64_t{1}, machine.processors / low);
        const std::int64_t blocks = std::min(machine.processors / teams, std::max(low, ceiling(clip.columns, kWarp)));
        s.teams = teams;
        if (!slices(blocks, most_rows(blocks)) ||
            static_cast<double>(s.chain()) > clipping::device_chain(clip.columns, kWarp))
            break;
        return s;
    }
    s.rows = 0;
    return s;
}

enum class Way { held, sliced, grouped };

struct Shape {
    Way way = Way::grouped;
    HeldShape held;
    SliceShape sliced;
};

// `resident`: how many blocks of a held shape a multiprocessor takes at once.
template <class Resident>
Shape choose_shape(const clipping::DeviceClip& clip, bool dense, std::int64_t size, const Machine& machine,
                   const Resident& resident, int slice_threads = SliceShape::kThreads) {
    Shape shape;
    if (clip.rows == 0) return shape;
    shape.held = held_shape(clip, dense, size, machine);
    HeldShape& held = shape.held;
    if (held.rows >= HeldShape::kLeastRows) {
        held.blocks =
            std::min(machine.processors * std::max(std::int64_t{1}, static_cast<std::int64_t>(resident(held))),
                     ceiling(clip.rows, held.rows));
        // Much of the device would have nothing to do with fewer blocks.
        if (2 * held.blocks >= machine.processors) {
            shape.way = Way::held;
            return shape;
        }
    }
    if (machine.grid && clip.rows * clip.columns * size >= machine.worth_waiting) {
        shape.sliced = slice_shape(clip, size, machine, slice_threads);
        if (shape.sliced.rows > 0) shape.way = Way::sliced;
    }
    return shape;
}

}  // namespace tightdp::cuda
