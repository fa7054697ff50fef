// How rows are shared out on a device: which of the three ways, how many rows and columns a block takes at a
// time, and what lies where in its shared memory. Plain arithmetic, so that the host's tests choose as a
// device does.
#pragma once

#include <algorithm>

#include "clip.hpp"

namespace tightdp::cuda {

// What a launch asks of the device.
struct Machine {
    long processors;
    long half;    // bytes of shared memory a block may take so that two are resident
    long whole;   // bytes a block may take alone
    bool grid;    // blocks of one launch may wait for each other
    // Bytes below which the plain way's launches take less time than blocks that wait for each other.
    long worth_waiting = 1 << 20;
};

TIGHTDP_HD constexpr long ceiling(long n, long d) { return (n + d - 1) / d; }
TIGHTDP_HD constexpr long to_multiple(long n, long d) { return ceiling(n, d) * d; }

inline constexpr int kWarp = 32;

// --- Short rows: a block holds groups of whole rows, several blocks a multiprocessor.

struct HeldShape {
    static constexpr int kThreads = 256;
    static constexpr int kMostRows = 64;   // short rows need many to be worth a group's four barriers
    static constexpr int kLeastRows = 8;   // fewer leave warps without a row
    static constexpr long kPiece = 1024;   // columns a team squares at a time
    static constexpr long kShort = 256;    // columns up to which eight lanes take a row's norm instead of 32

    long rows = 0, columns = 0, pitch = 0, blocks = 0;
    int pieces = 1;
    int groups = 1;      // threads beyond the columns take other rows: sums[group][column]
    bool dense = false;  // rows follow each other without gaps, and are copied as one run

    TIGHTDP_HD long squares_at() const { return groups * columns * 8; }
    TIGHTDP_HD long factors_at() const { return squares_at() + rows * pieces * 8; }
    TIGHTDP_HD long rows_at() const { return to_multiple(factors_at() + rows * 8, 16); }
    // 16 more: a dense group starts at the same place within 16 bytes as in memory.
    TIGHTDP_HD long bytes() const { return rows_at() + rows * pitch + 16; }
};

inline HeldShape held_shape(const clipping::DeviceClip& clip, bool dense, long size, const Machine& machine) {
    HeldShape s;
    s.columns = clip.columns;
    s.dense = dense;
    s.pitch = dense ? clip.columns * size : to_multiple(clip.columns * size, 16);
    s.pieces = static_cast<int>(std::min<long>(ceiling(clip.columns, HeldShape::kPiece), 1 << 20));
    s.groups = static_cast<int>(std::clamp<long>(HeldShape::kThreads / clip.columns, 1, HeldShape::kMostRows));
    s.rows = std::min<long>((machine.half - s.rows_at() - 32) / (s.pitch + 8 * s.pieces + 8), HeldShape::kMostRows);
    return s;
}

// --- Longer rows: teams of blocks, each block with its own columns of every row of its team.

struct SliceShape {
    static constexpr int kThreads = 768;  // 80 registers each: with 1024 some would spill
    static constexpr int kFactorWarps = 4;  // take the factors of a group while the others square the next
    static constexpr int kMostRows = 32;    // one warp publishes them
    static constexpr int kBuffers = 3;      // a group each: being added, squared, loaded
    static constexpr int kSlots = 4;        // of the exchange: see sliced_kernel

    long rows = 0, slice = 0, pitch = 0;  // rows of a group, columns of a block, bytes of a row's slice
    long blocks = 0, teams = 0;           // blocks of a team
    long piece = 0;
    int pieces = 1, threads = kThreads;

    TIGHTDP_HD long squares_at() const { return slice * 8; }
    TIGHTDP_HD long factors_at() const { return squares_at() + rows * pieces * 8; }
    TIGHTDP_HD long buffers_at() const { return to_multiple(factors_at() + rows * 8, 16); }
    TIGHTDP_HD long bytes() const { return buffers_at() + kBuffers * rows * pitch; }
    // Doubles of the exchange, counters of arrivals.
    TIGHTDP_HD long exchange() const { return teams * kSlots * rows * blocks; }
    TIGHTDP_HD long counters() const { return teams * kSlots; }
    // Additions that a square goes through: a lane's share, its warp, the pieces, the blocks.
    TIGHTDP_HD long chain() const { return ceiling(piece, kWarp) + 5 + pieces + ceiling(blocks, kWarp) + 5; }
};

// rows == 0: does not fit.
inline SliceShape slice_shape(const clipping::DeviceClip& clip, long size, const Machine& machine,
                              int threads = SliceShape::kThreads) {
    SliceShape s;
    s.threads = threads;
    const long squaring = threads / kWarp - SliceShape::kFactorWarps;
    const auto slices = [&](long blocks, long rows) {
        s.blocks = blocks;
        s.slice = to_multiple(ceiling(clip.columns, blocks), kWarp);
        // A column's place within 16 bytes is that of the row's start: see copy_run.
        s.pitch = to_multiple(s.slice * size, 16) + 16;
        s.pieces = static_cast<int>(std::clamp(squaring / rows, 1L, ceiling(s.slice, 4 * kWarp)));
        s.piece = to_multiple(ceiling(s.slice, s.pieces), kWarp);
        s.rows = rows;
        return s.bytes() <= machine.whole;
    };
    const auto most_rows = [&](long blocks) {
        long rows = std::min<long>(SliceShape::kMostRows, clip.rows);
        while (rows > 0 && !slices(blocks, rows)) --rows;
        return rows;
    };
    // As few blocks to a team as leave four rows to a group, else two, else one.
    for (const long wanted : {4L, 2L, 1L}) {
        if (clip.rows < wanted || !slices(machine.processors, wanted)) continue;
        long low = 1, high = machine.processors;
        while (low < high) {
            const long middle = (low + high) / 2;
            if (slices(middle, wanted)) high = middle;
            else low = middle + 1;
        }
        // No more teams than groups; the blocks left over join teams.
        const long teams = std::clamp(ceiling(clip.rows, most_rows(low)), 1L, machine.processors / low);
        const long blocks = std::min(machine.processors / teams, std::max(low, ceiling(clip.columns, kWarp)));
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
Shape choose_shape(const clipping::DeviceClip& clip, bool dense, long size, const Machine& machine,
                   const Resident& resident, int slice_threads = SliceShape::kThreads) {
    Shape shape;
    if (clip.rows == 0) return shape;
    shape.held = held_shape(clip, dense, size, machine);
    HeldShape& held = shape.held;
    if (held.rows >= HeldShape::kLeastRows) {
        held.blocks = std::min(machine.processors * std::max(1L, static_cast<long>(resident(held))),
                               ceiling(clip.rows, held.rows));
        // Else much of the device would have nothing to do.
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
