// Clips rows and adds them up on threads. clip_plan.hpp explains tiles, stripes, blocks and chunks. The exact form adds
// integers (clipped_sum.hpp).
#include "clipped_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>

#include "clip_plan.hpp"
#include "extreme_rows.hpp"
#include "random/draws.hpp"
#include "random/rounded_normal.hpp"
#include "runtime/aligned.hpp"
#include "runtime/parallel.hpp"

namespace tightdp {
namespace {

// Number of tiles in a run. The rows of a block are added to all tiles of a run before the next run begins. The sums of
// a run (64 KB) stay in the second-level cache. A run reads up to 64 KB of each row, a few pages in sequence. If rows
// come from memory, adding them tile by tile would take half as long again.
constexpr std::size_t kRunTiles = 8;
constexpr std::size_t kRunColumns = kRunTiles * kTileColumns;

// A row of zeros, which replaces missing rows and rows with the factor 0, so that no NaN is multiplied by 0.
alignas(64) constexpr double kZeroRow[kTileColumns] = {};

// Clips rows and computes their sums in doubles or, for the exact form, in integers.
template <class Sum>
class Clipper {
    static constexpr bool kExact = std::is_same_v<Sum, std::int64_t>;

  public:
    Clipper(const ClipRequest& request, const ClipPlan& plan)
        : r_(request),
          plan_(plan),
          rows_(request),
          kernels_(TIGHTDP_SELECT_SIMD(clip_tile_kernels)(request.dtype, request.center != nullptr, kExact)),
          finish_(TIGHTDP_SELECT_SIMD(clip_finish_kernels)()),
          single_(request.dtype != Dtype::float64 && !request.center),
          rounding_(single_ ? clipping::single_clip_rounding() : clipping::double_clip_rounding(plan.longest_chain)) {
        if constexpr (kExact) {
            rounding_ = clipping::exact_clip_rounding(rounding_);
            lane_weight_ = kLaneLimit * request.grid / request.max_norm;
        }
    }

    // The state of a team of threads that share the columns of one range of rows.
    struct Team {
        SpinBarrier barrier;
        // The array [parity][stripe][row] of the sums of squares of a block's rows in each stripe. The parity is the
        // number of the block modulo 2, so that successive blocks use different halves of the array.
        AlignedArray squares;
        bool stopped[2] = {};  // for each parity, whether worker 0 was asked to stop
        explicit Team(std::size_t stripes) : squares(2 * kBlockRows * stripes) {}
    };

    // Adds the rows [begin, end) in blocks of `rows` rows, for the stripes of `worker`. `begin` is the start of a
    // chunk. Each chunk of rows has its own sums in `sums`, one for each column. If `finish` is true, the rows are one
    // chunk, and the sums are written to the output after the last block. If this chunk is also a single block, `sums`
    // has room only for the kRunColumns columns of one run. The sums of a run are then written before the next run
    // begins.
    void run_clip_blocks(Team& team, std::size_t begin, std::size_t end, std::size_t rows, int worker, int workers,
                         Sum* sums, bool finish) const noexcept {
        const Range stripes = share(plan_.clip_stripe_count(), 1, worker, workers);
        const bool kept = !finish || end - begin > rows;
        Block block;
        unsigned parity = 0;
        do {
            block.start_clipped_sum_block(begin, rows, plan_.chunk_rows, end);
            double* const squared = team.squares.data() + parity * plan_.clip_stripe_count() * kBlockRows;
            compute_clip_norms(block, stripes, squared);
            // Worker 0, the calling thread, decides for all workers whether to go on. A worker that decided alone might
            // leave while others wait for it. Decisions for successive blocks are stored apart, because a slow thread
            // may still read the decision for the block before.
            if (worker == 0) team.stopped[parity] = stop_.must_stop(0);
            team.barrier.wait(workers);
            if (team.stopped[parity]) return;
            compute_clip_factors(block, squared, worker == 0);
            begin = block.end;
            add_clip_block(block, stripes, sums + block.begin / plan_.chunk_rows * plan_.columns, kept,
                           begin == end && finish);
            parity ^= 1;
        } while (begin < end);
    }

    // Writes the sums of a tile, with noise, to the output. In the exact form, the noise is added to the integers in
    // `sums`.
    void write_clip_tile(const ClipTile& tile, Sum* sums) const noexcept {
        const ClipSegment& segment = r_.segments[tile.segment];
        const std::uint64_t noise_index = segment.noise_index + tile.column;
        if constexpr (kExact) {
            if (r_.stream)
                add_rounded_normals_range(*r_.stream, {&r_.deviation, false}, noise_index,
                                          static_cast<std::size_t>(tile.columns), sums);
            if (r_.out_integers)
                add_clip_sums(static_cast<Sum*>(segment.out) + tile.column, sums, tile.columns, r_.accumulate);
            else if (r_.out_double)
                finish_.full_of_integers(static_cast<double*>(segment.out) + tile.column, sums, r_.grid, tile.columns);
            else
                finish_.single_of_integers(static_cast<float*>(segment.out) + tile.column, sums, r_.grid, tile.columns);
        } else if (r_.out_double) {
            write_clip_tile_as(static_cast<double*>(segment.out) + tile.column, finish_.full, tile, noise_index, sums);
        } else {
            write_clip_tile_as(static_cast<float*>(segment.out) + tile.column, finish_.single, tile, noise_index, sums);
        }
    }

    // Returns whether the job has to stop early. The function is called before `rows` rows are added to the sums of a
    // tile. If `finish` is true, the sums are then written with noise, and the noise counts as further work.
    bool must_stop_clipping(const ClipTile& tile, std::size_t rows, bool finish) const noexcept {
        return stop_.must_stop(tile.columns * static_cast<std::int64_t>(rows + (finish ? kNoise : 0)));
    }
    void throw_if_stopped() const { stop_.throw_if_stopped(); }

    // Computes to[j] = (add ? to[j] : 0) + sums[j], modulo 2^64 for integers.
    static void add_clip_sums(Sum* to, const Sum* sums, std::int64_t n, bool add) noexcept {
        using Wrapping = std::conditional_t<kExact, std::uint64_t, double>;
        for (std::int64_t j = 0; j < n; ++j)
            to[j] = add ? static_cast<Sum>(static_cast<Wrapping>(to[j]) + static_cast<Wrapping>(sums[j])) : sums[j];
    }

  private:
    // Units of work (runtime/work_budget.hpp) for the noise of a column, which may take a few microseconds.
    static constexpr std::size_t kNoise = 1024;

    // A block of at most kBlockRows rows of one chunk.
    struct Block {
        std::size_t begin = 0, end = 0;
        bool fresh = true;  // true for the first block of a chunk
        double factors[kBlockRows];
        // Bit i is set if, in the exact form, the integers of row i of the block could exceed 32 bits. Such rows are
        // added one by one.
        std::uint64_t heavy = 0;
        static_assert(kBlockRows <= 64);

        std::size_t count_clip_rows() const { return end - begin; }
        void start_clipped_sum_block(std::size_t row, std::size_t rows, std::size_t chunk_rows, std::size_t last) {
            begin = row;
            fresh = row % chunk_rows == 0;
            end = std::min({last, row + rows, (row / chunk_rows + 1) * chunk_rows});
        }
    };

    // Returns the sweep (clip_tile.hpp) over the columns of a tile and over kSweepRows rows, from row `first` of the
    // block on. Rows beyond the block's end, and rows that are not wanted, are replaced by rows of zeros.
    template <class Wanted>
    Sweep make_clip_sweep(const Block& block, std::size_t first, const ClipTile& tile, const void* (&rows)[kSweepRows],
                          Wanted&& wanted) const noexcept {
        const std::ptrdiff_t stride = r_.segments[tile.segment].stride;
        const char* p = rows_.find_extreme_row(block.begin + first, tile);
        for (std::size_t i = 0; i < kSweepRows; ++i, p += stride)
            rows[i] = first + i < block.count_clip_rows() && wanted(i) ? static_cast<const void*>(p) : kZeroRow;
        const Transform transform =
            r_.center ? Transform{r_.center + tile.first, r_.inverse_scale + tile.first} : Transform{};
        return {block.count_clip_rows() - first > kGroup ? 2 : 1, tile.columns, transform, rows};
    }

    // Computes the sums of squares of a block's rows, eight rows at a time. The processor's prefetching stops at the
    // end of a page. While one row then waits for memory, work on the other rows goes on.
    void compute_clip_norms(const Block& block, Range stripes, double* squared) const noexcept {
        const void* rows[kSweepRows];
        for (std::size_t first = 0; first < block.count_clip_rows(); first += kSweepRows)
            for (std::size_t s = stripes.begin; s < stripes.end; ++s) {
                double* const of_stripe = squared + s * kBlockRows + first;
                std::fill_n(of_stripe, kSweepRows, 0.0);
                for (std::size_t t = plan_.stripes[s]; t < plan_.stripes[s + 1]; ++t) {
                    const ClipTile& tile = plan_.tiles[t];
                    if (stop_.must_stop(kSweepRows * tile.columns)) return;
                    kernels_.square(make_clip_sweep(block, first, tile, rows, [](std::size_t) { return true; }),
                                    of_stripe);
                }
            }
    }

    // Adds the rows of a block to `sums`, one run of tiles after the other.
    void add_clip_block(const Block& block, Range stripes, Sum* sums, bool kept, bool finish) const noexcept {
        const std::size_t end = plan_.stripes[stripes.end];
        for (std::size_t t = plan_.stripes[stripes.begin]; t < end; t += kRunTiles) {
            const std::span run(plan_.tiles.data() + t, std::min(kRunTiles, end - t));
            add_clip_run(block, run, kept ? sums + run.front().first : sums, finish);
        }
    }

    // Adds a run of tiles to `sums`. The first number in `sums` belongs to the run's first column. Eight rows at a time
    // are added over the whole run. Reading all rows of one tile before the next tile would be slow, because the
    // processor prefetches the bytes that follow in the same row.
    void add_clip_run(const Block& block, std::span<const ClipTile> run, Sum* sums, bool finish) const noexcept {
        const auto of = [&](const ClipTile& tile) { return sums + (tile.first - run.front().first); };
        const void* rows[kSweepRows];
        double factors[kSweepRows];
        for (std::size_t first = 0; first < block.count_clip_rows(); first += kSweepRows) {
            for (std::size_t i = 0; i < kSweepRows; ++i) {
                const bool added = first + i < block.count_clip_rows() && !(block.heavy >> (first + i) & 1);
                factors[i] = added ? block.factors[first + i] : 0.0;
            }
            for (const ClipTile& tile : run) {
                if (stop_.must_stop(kSweepRows * tile.columns)) return;
                const Sweep swept =
                    make_clip_sweep(block, first, tile, rows, [&](std::size_t i) { return factors[i] > 0; });
                kernels_.add(swept, factors, of(tile), first == 0 && block.fresh);
            }
        }
        for (const ClipTile& tile : run) {
            if (must_stop_clipping(tile, static_cast<std::size_t>(std::popcount(block.heavy)), finish)) return;
            if (block.count_clip_rows() == 0) std::fill_n(of(tile), tile.columns, Sum{});
            if constexpr (kExact)
                for (std::uint64_t left = block.heavy; left; left &= left - 1) {
                    const auto i = static_cast<std::size_t>(std::countr_zero(left));
                    rows_.add_extreme_row(block.begin + i, tile, block.factors[i], of(tile));
                }
            if (finish) write_clip_tile(tile, of(tile));
        }
    }

    void compute_clip_factors(Block& rows, const double* squared, bool report) const noexcept {
        rows.heavy = 0;
        for (std::size_t i = 0; i < rows.count_clip_rows(); ++i) {
            double square = 0;
            for (std::size_t s = 0; s < plan_.clip_stripe_count(); ++s) square += squared[s * kBlockRows + i];
            const std::size_t row = rows.begin + i;
            const double norm = std::isfinite(square) ? std::sqrt(square) : rows_.norm_of_extreme_row(row);
            const double weight = r_.weights ? r_.weights[row] : 1.0;
            rows.factors[i] = clipping::clip_factor(norm, r_.max_norm, weight, r_.rule, r_.stability, rounding_);
            if constexpr (kExact) {
                const bool heavy = weight > lane_weight_;
                rows.heavy |= std::uint64_t{heavy && rows.factors[i] > 0} << i;
                rows.factors[i] = clipping::grid_clip_factor(rows.factors[i], 1 / r_.grid, single_ && !heavy);
            }
            if (report && r_.norms) r_.norms[row] = norm;
        }
    }

    template <class Real, class Finish>
    void write_clip_tile_as(Real* out, Finish finish, const ClipTile& tile, std::uint64_t noise_index,
                            const double* sums) const noexcept {
        alignas(64) Real noise[kTileColumns];
        if (r_.stream) write_normal_range(*r_.stream, noise_index, static_cast<std::size_t>(tile.columns), noise);
        finish(out, sums, r_.stream ? noise : nullptr, r_.deviation, tile.columns, r_.accumulate);
    }

    const ClipRequest& r_;
    const ClipPlan& plan_;
    const ClipRows rows_;
    const ClipKernels kernels_;
    const FinishKernels finish_;
    const bool single_;  // whether rows are multiplied in float32
    clipping::Rounding rounding_;
    double lane_weight_ = 0;  // largest weight of rows whose integers fit in the 32-bit lanes of a sweep
    mutable StopFlag stop_;
};

// Returns the memory as an array of sums, which are doubles or integers of 8 bytes.
template <class Sum>
Sum* cast_clipped_sum_memory(AlignedArray& memory) noexcept {
    static_assert(sizeof(Sum) == sizeof(double));
    return reinterpret_cast<Sum*>(memory.data());
}

int choose_clip_workers(std::size_t elements, std::size_t pieces) noexcept {
    // Each worker gets at least about 10 microseconds of work. With less work, waking a thread costs more time than it
    // saves.
    const std::size_t by_work = elements / (std::size_t{1} << 17) + 1;
    return static_cast<int>(std::min({static_cast<std::size_t>(max_threads()), by_work, pieces}));
}

// Computes the sums with threads that share the columns. The threads wait for each other once in each block of rows.
template <class Sum>
void clip_by_columns(const ClipRequest& request, const ClipPlan& plan, const Clipper<Sum>& clipper) {
    const int wanted = choose_clip_workers(request.rows * plan.columns + plan.columns, plan.clip_stripe_count());
    typename Clipper<Sum>::Team team(plan.clip_stripe_count());
    // The thread pool may grant fewer workers than wanted. The number of rows in a block stays the same.
    const std::size_t rows = choose_clip_block_rows(plan.row_bytes / static_cast<std::size_t>(wanted));
    const bool one_block = request.rows <= rows;
    const std::size_t own = one_block ? std::min(kRunColumns, plan.columns) : 0;
    AlignedArray sums(one_block ? static_cast<std::size_t>(wanted) * own : plan.columns);
    parallel(wanted, [&](int worker, int workers) {
        Sum* const first = cast_clipped_sum_memory<Sum>(sums) + static_cast<std::size_t>(worker) * own;
        clipper.run_clip_blocks(team, 0, request.rows, rows, worker, workers, first, true);
    });
    clipper.throw_if_stopped();
}

// Computes the sums with threads that share the chunks of rows. The sums of the chunks are added in order.
template <class Sum>
void clip_by_rows(const ClipRequest& request, const ClipPlan& plan, const Clipper<Sum>& clipper) {
    const std::size_t chunks = plan.clip_chunk_count(request.rows);
    const int wanted = choose_clip_workers(request.rows * plan.columns, chunks);
    AlignedArray memory(chunks * plan.columns);
    Sum* const sums = cast_clipped_sum_memory<Sum>(memory);
    std::deque<typename Clipper<Sum>::Team> teams;
    for (int i = 0; i < wanted; ++i) teams.emplace_back(plan.clip_stripe_count());
    SpinBarrier summed;
    parallel(wanted, [&](int worker, int workers) {
        const Range own = share(chunks, 1, worker, workers);
        if (own.begin < own.end)
            clipper.run_clip_blocks(teams[worker], own.begin * plan.chunk_rows,
                                    std::min(request.rows, own.end * plan.chunk_rows), kSweepRows, 0, 1, sums, false);
        summed.wait(workers);
        const Range mine = share(plan.tiles.size(), 1, worker, workers);
        for (std::size_t t = mine.begin; t < mine.end; ++t) {
            const ClipTile& tile = plan.tiles[t];
            if (clipper.must_stop_clipping(tile, chunks, true)) return;
            Sum* const total = sums + tile.first;
            for (std::size_t c = 1; c < chunks; ++c)
                Clipper<Sum>::add_clip_sums(total, total + c * plan.columns, tile.columns, true);
            clipper.write_clip_tile(tile, total);
        }
    });
    clipper.throw_if_stopped();
}

template <class Sum>
void run_clipped_sum(const ClipRequest& request) {
    const ClipPlan plan(request);
    const Clipper<Sum> clipper(request, plan);
    plan.clip_chunk_count(request.rows) > 1 ? clip_by_rows(request, plan, clipper)
                                            : clip_by_columns(request, plan, clipper);
}

}  // namespace

void clipped_sum(const ClipRequest& request) {
    request.grid > 0 ? run_clipped_sum<std::int64_t>(request) : run_clipped_sum<double>(request);
}

}  // namespace tightdp
