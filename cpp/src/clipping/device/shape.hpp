// Chooses how rows are shared out on a device: the choice among the three ways of clipped_sum.cu, the number of rows
// and columns that a block takes at a time, and the layout of its shared memory. The code is plain arithmetic, so that
// tests on the host make the same choices as a device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "clip.hpp"

namespace tightdp::cuda {

// Properties of the device that a launch depends on.
struct Machine {
    std::int64_t processors;  // number of multiprocessors
    std::int64_t half;        // bytes of shared memory that each of two blocks on a multiprocessor may take
    std::int64_t whole;       // bytes of shared memory that a single block on a multiprocessor may take
    bool grid;                // whether blocks of one launch may wait for each other
    // Smallest number of bytes of data for which blocks that wait for each other are faster than the launches of the
    // third way.
    std::int64_t worth_waiting = 1 << 20;
};

TIGHTDP_HD constexpr std::int64_t ceiling(std::int64_t n, std::int64_t d) {
    return (n + d - 1) / d;
}
TIGHTDP_HD constexpr std::int64_t to_multiple(std::int64_t n, std::int64_t d) {
    return ceiling(n, d) * d;
}

inline constexpr int kWarp = 32;

// --- Short rows: a block holds groups of whole rows, and each multiprocessor has several blocks.

struct HeldShape {
    static constexpr int kThreads = 256;
    static constexpr int kMostRows = 64;          // rows of a group; many rows make up for its four barriers
    static constexpr int kLeastRows = 8;          // with fewer rows, some warps would have no row
    static constexpr std::int64_t kPiece = 1024;  // number of columns that a team squares at a time
    static constexpr std::int64_t kShort = 256;   // up to this number of columns, 8 lanes compute a norm instead of 32

    std::int64_t rows = 0, columns = 0, pitch = 0, blocks = 0;
    int pieces = 1;
    int groups = 1;      // number of groups of threads, which take different rows: sums[group][column]
    bool dense = false;  // true if rows follow each other without gaps, so that they are copied as one run

    TIGHTDP_HD std::int64_t squares_at() const { return groups * columns * 8; }
    TIGHTDP_HD std::int64_t factors_at() const { return squares_at() + rows * pieces * 8; }
    TIGHTDP_HD std::int64_t rows_at() const { return to_multiple(factors_at() + rows * 8, 16); }
    // Has 16 bytes more than the rows, since the address of a dense group modulo 16 is the same as in memory.
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

// --- Longer rows: each block of a team has its own columns of every row of the team.

struct SliceShape {
    static constexpr int kThreads = 768;    // each has 80 registers; with 1024 threads some would spill
    static constexpr int kFactorWarps = 4;  // these warps compute the factors of a group while others square the next
    static constexpr int kMostRows = 32;    // rows of a group, whose squares one warp writes to the exchange
    static constexpr int kBuffers = 3;      // for the groups that are being added, squared and loaded
    static constexpr int kSlots = 4;        // slots of the exchange (sliced_kernel)

    std::int64_t rows = 0, slice = 0, pitch = 0;  // rows of a group, columns of a block, bytes of a row's slice
    std::int64_t blocks = 0, teams = 0;           // number of blocks in a team, and of teams
    std::int64_t piece = 0;
    int pieces = 1, threads = kThreads;

    TIGHTDP_HD std::int64_t squares_at() const { return slice * 8; }
    TIGHTDP_HD std::int64_t factors_at() const { return squares_at() + rows * pieces * 8; }
    TIGHTDP_HD std::int64_t buffers_at() const { return to_multiple(factors_at() + rows * 8, 16); }
    TIGHTDP_HD std::int64_t bytes() const { return buffers_at() + kBuffers * rows * pitch; }
    // Return the number of doubles in the exchange, and the number of counters of arrivals.
    TIGHTDP_HD std::int64_t exchange() const { return teams * kSlots * rows * blocks; }
    TIGHTDP_HD std::int64_t counters() const { return teams * kSlots; }
    // Returns the largest number of additions through which a square passes: those in a lane's share, of its warp,
    // of the pieces, and of the blocks.
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
        // Has 16 bytes more than the columns, since the address of a row's first column modulo 16 is the same as in
        // memory (SlicePlace).
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
    // The team has the smallest number of blocks with which a group has four rows. If there is none, a group has two
    // rows or one.
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
        // The number of teams is at most that of groups. The blocks that are left over join teams.
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

// Chooses the way and its shape. `resident` returns the number of blocks of a held shape that a multiprocessor takes at
// once.
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
        // Much of the device would have no work with fewer blocks.
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
