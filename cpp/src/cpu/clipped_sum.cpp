#include "clipped_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>

#include "clip_plan.hpp"
#include "parallel.hpp"
#include "random.hpp"
#include "tightdp/aligned.hpp"
#include "tightdp/clipping/narrow_float.hpp"

namespace tightdp {
namespace {

// Rows that add nothing stand for examples that are not finite, so that a NaN never meets a zero factor.
alignas(64) constexpr double kZeroRow[kTileColumns] = {};

class Clipper {
  public:
    Clipper(const ClipRequest& request, const ClipPlan& plan)
        : r_(request),
          plan_(plan),
          size_(element_size(request.dtype)),
          kernels_(TIGHTDP_SELECT_SIMD(clip_kernels)(request.dtype, request.center != nullptr)),
          finish_(TIGHTDP_SELECT_SIMD(finish_kernels)()),
          rounding_(request.dtype != Dtype::float64 && !request.center
                        ? clipping::single_rounding()
                        : clipping::double_rounding(plan.longest_chain)) {}

    // State of a team of threads that share the columns of one range of rows.
    struct Team {
        SpinBarrier barrier;
        // Sums of squares of a block's rows in each stripe, for two blocks in turn: [block
        // parity][stripe][row].
        AlignedArray squares;
        explicit Team(std::size_t stripes) : squares(2 * kBlockRows * stripes) {}
    };

    // Rows [begin, end), begin at the start of a chunk, and the stripes of `worker`. Each chunk of rows has
    // sums of its own in `sums`, one a column; null where all rows are one block and `finish` is set: then a
    // tile's sums need no memory of their own. With `finish` the rows are one chunk and the last block's
    // tiles go to the output.
    void run(Team& team, std::size_t begin, std::size_t end, int worker, int workers, double* sums,
             bool finish) const noexcept {
        const Range stripes = share(plan_.stripe_count(), 1, worker, workers);
        const BlockSize size = block_size(plan_.row_bytes / static_cast<std::size_t>(workers));
        Block now, next;
        next.follow(begin, size.rows, plan_.chunk_rows, end);
        norms(next, stripes, squares(team, 0));
        for (unsigned parity = 0;; parity ^= 1) {
            std::swap(now, next);
            team.barrier.wait(workers);
            factors(now, squares(team, parity), worker == 0);
            const bool last = now.end == end;
            next.follow(now.end, size.rows, plan_.chunk_rows, end);
            double* const chunk = sums ? sums + now.begin / plan_.chunk_rows * plan_.columns : nullptr;
            add(now, size.pipelined && !last ? &next : nullptr, stripes, squares(team, parity ^ 1), chunk,
                last && finish);
            if (last) return;
            if (!size.pipelined) norms(next, stripes, squares(team, parity ^ 1));
        }
    }

    // The tile's sums, with noise, to the output.
    void write(const ClipTile& tile, const double* sums) const noexcept {
        const ClipSegment& segment = r_.segments[tile.segment];
        if (r_.out_double)
            write_as(static_cast<double*>(segment.out) + tile.column, finish_.full, tile, sums);
        else
            write_as(static_cast<float*>(segment.out) + tile.column, finish_.single, tile, sums);
    }

  private:
    // Rows of one chunk, at most kBlockRows.
    struct Block {
        std::size_t begin = 0, end = 0;
        bool fresh = true;  // the first of its chunk
        double factors[kBlockRows];

        std::size_t count() const { return end - begin; }
        void follow(std::size_t row, std::size_t rows, std::size_t chunk_rows, std::size_t last) {
            begin = row;
            fresh = row % chunk_rows == 0;
            end = std::min({last, row + rows, (row / chunk_rows + 1) * chunk_rows});
        }
    };

    double* squares(Team& team, unsigned parity) const noexcept {
        return team.squares.data() + parity * plan_.stripe_count() * kBlockRows;
    }

    const char* at(std::size_t row, const ClipTile& tile) const noexcept {
        const ClipSegment& segment = r_.segments[tile.segment];
        return static_cast<const char*>(segment.data) + static_cast<std::ptrdiff_t>(row) * segment.stride +
               static_cast<std::ptrdiff_t>(tile.column * size_);
    }

    // The sweep over kSweepRows rows of a tile, from row `first` of the blocks on; rows that are not there,
    // and of the block that is added those of factor 0, are zero.
    void sweep(const Block* now, const Block* next, std::size_t first, const ClipTile& tile, double* sums,
               double* squared) const noexcept {
        const std::ptrdiff_t stride = r_.segments[tile.segment].stride;
        const void *rows[kSweepRows], *ahead[kSweepRows];
        double factor[kSweepRows];
        const auto pieces = [&](const Block& block, auto put) {
            const char* p = at(block.begin + first, tile);
            for (std::size_t i = 0; i < kSweepRows; ++i, p += stride)
                put(i, first + i < block.count() ? p : nullptr);
        };
        if (now)
            pieces(*now, [&](std::size_t i, const char* p) {
                factor[i] = p ? now->factors[first + i] : 0.0;
                rows[i] = factor[i] > 0 ? static_cast<const void*>(p) : kZeroRow;
            });
        if (next)
            pieces(*next, [&](std::size_t i, const char* p) {
                ahead[i] = p ? static_cast<const void*>(p) : kZeroRow;
            });
        const std::size_t left = std::max(now ? now->count() : 0, next ? next->count() : 0) - first;
        const Transform transform =
            r_.center ? Transform{r_.center + tile.first, r_.inverse_scale + tile.first} : Transform{};
        kernels_.sweep({left > kGroup ? 2 : 1, tile.columns, transform, now ? rows : nullptr, factor, sums,
                        first == 0 && now && now->fresh, next ? ahead : nullptr, squared + first});
    }

    // Eight rows at a time, which hide each other's page ends.
    void norms(const Block& rows, Range stripes, double* squared) const noexcept {
        for (std::size_t first = 0; first < rows.count(); first += kSweepRows)
            for (std::size_t s = stripes.begin; s < stripes.end; ++s) {
                double* const of_stripe = squared + s * kBlockRows;
                std::fill_n(of_stripe + first, kSweepRows, 0.0);
                for (std::size_t t = plan_.stripes[s]; t < plan_.stripes[s + 1]; ++t)
                    sweep(nullptr, &rows, first, plan_.tiles[t], nullptr, of_stripe);
            }
    }

    // Adds the rows of `now` to `sums`, tile by tile, and squares those of `next`, if any, on the way.
    void add(const Block& now, const Block* next, Range stripes, double* squared, double* sums,
             bool finish) const noexcept {
        for (std::size_t s = stripes.begin; s < stripes.end; ++s) {
            double* const of_stripe = squared + s * kBlockRows;
            if (next) std::fill_n(of_stripe, kSweepRows, 0.0);
            for (std::size_t t = plan_.stripes[s]; t < plan_.stripes[s + 1]; ++t) {
                const ClipTile& tile = plan_.tiles[t];
                alignas(64) double local[kTileColumns];
                double* const to = sums ? sums + tile.first : local;
                if (now.count() == 0) std::fill_n(to, tile.columns, 0.0);
                for (std::size_t first = 0; first < now.count(); first += kSweepRows)
                    sweep(&now, next, first, tile, to, of_stripe);
                if (finish) write(tile, to);
            }
        }
    }

    void factors(Block& rows, const double* squared, bool report) const noexcept {
        for (std::size_t i = 0; i < rows.count(); ++i) {
            double square = 0;
            for (std::size_t s = 0; s < plan_.stripe_count(); ++s) square += squared[s * kBlockRows + i];
            const std::size_t row = rows.begin + i;
            const double norm = std::isfinite(square) ? std::sqrt(square) : norm_of_large(row);
            rows.factors[i] = clipping::clip_factor(norm, r_.max_norm, r_.weights ? r_.weights[row] : 1.0,
                                                    r_.rule, r_.stability, rounding_);
            if (report && r_.norms) r_.norms[row] = norm;
        }
    }

    // The sum of squares overflowed or met a NaN: the norm in units of the largest entry, +inf if an entry is
    // not finite or the norm exceeds the largest double. Rare, so it is one thread's plain loop.
    double norm_of_large(std::size_t row) const noexcept {
        double largest = 0;
        bool finite = true;
        each_entry(row, [&](double x) {
            finite = finite && std::isfinite(x);
            largest = std::max(largest, std::fabs(x));
        });
        if (!finite) return std::numeric_limits<double>::infinity();
        const int exponent = std::ilogb(largest);
        double square = 0;
        each_entry(row, [&](double x) {
            const double y = std::scalbn(x, -exponent);
            square += y * y;
        });
        return std::scalbn(std::sqrt(square), exponent);
    }

    template <class F>
    void each_entry(std::size_t row, F visit) const noexcept {
        for (const ClipTile& tile : plan_.tiles) {
            const char* const p = at(row, tile);
            for (long j = 0; j < tile.columns; ++j) {
                double x = entry(p, j);
                if (r_.center) x = (x - r_.center[tile.first + j]) * r_.inverse_scale[tile.first + j];
                visit(x);
            }
        }
    }

    double entry(const char* p, long j) const noexcept {
        switch (r_.dtype) {
            case Dtype::float16:
                return clipping::to_float(reinterpret_cast<const clipping::Float16*>(p)[j]);
            case Dtype::bfloat16:
                return clipping::to_float(reinterpret_cast<const clipping::BFloat16*>(p)[j]);
            case Dtype::float32:
                return reinterpret_cast<const float*>(p)[j];
            default:
                return reinterpret_cast<const double*>(p)[j];
        }
    }

    template <class Real, class Finish>
    void write_as(Real* out, Finish finish, const ClipTile& tile, const double* sums) const noexcept {
        alignas(64) Real noise[kTileColumns];
        if (r_.stream) normal_range(*r_.stream, tile.first, static_cast<std::size_t>(tile.columns), noise);
        finish(out, sums, r_.stream ? noise : nullptr, r_.deviation, tile.columns, r_.accumulate);
    }

    const ClipRequest& r_;
    const ClipPlan& plan_;
    const std::size_t size_;
    const ClipKernels kernels_;
    const FinishKernels finish_;
    const clipping::Rounding rounding_;
};

int useful_workers(std::size_t elements, std::size_t pieces) noexcept {
    // About 10 microseconds of work each, below which waking a thread costs more than it saves.
    const std::size_t by_work = elements / (std::size_t{1} << 17) + 1;
    return static_cast<int>(std::min({static_cast<std::size_t>(max_threads()), by_work, pieces}));
}

// Threads share the columns and wait for each other once a block.
void by_columns(const ClipRequest& request, const ClipPlan& plan, const Clipper& clipper) {
    const int wanted = useful_workers(request.rows * plan.columns + plan.columns, plan.stripe_count());
    Clipper::Team team(plan.stripe_count());
    // The pool may grant one worker where two were wanted.
    const std::size_t share = plan.row_bytes / static_cast<std::size_t>(wanted);
    const bool one_block = request.rows <= std::min(block_size(share).rows, block_size(plan.row_bytes).rows);
    AlignedArray sums(one_block ? 0 : plan.columns);
    parallel(wanted, [&](int worker, int workers) {
        clipper.run(team, 0, request.rows, worker, workers, one_block ? nullptr : sums.data(), true);
    });
}

// Threads share the chunks of rows; the chunks' sums are added in order.
void by_rows(const ClipRequest& request, const ClipPlan& plan, const Clipper& clipper) {
    const std::size_t chunks = plan.chunk_count(request.rows);
    const int wanted = useful_workers(request.rows * plan.columns, chunks);
    AlignedArray sums(chunks * plan.columns);
    std::deque<Clipper::Team> teams;
    for (int i = 0; i < wanted; ++i) teams.emplace_back(plan.stripe_count());
    SpinBarrier summed;
    parallel(wanted, [&](int worker, int workers) {
        const Range own = share(chunks, 1, worker, workers);
        if (own.begin < own.end)
            clipper.run(teams[worker], own.begin * plan.chunk_rows,
                        std::min(request.rows, own.end * plan.chunk_rows), 0, 1, sums.data(), false);
        summed.wait(workers);
        const Range mine = share(plan.tiles.size(), 1, worker, workers);
        for (std::size_t t = mine.begin; t < mine.end; ++t) {
            const ClipTile& tile = plan.tiles[t];
            double* const total = sums.data() + tile.first;
            for (std::size_t c = 1; c < chunks; ++c)
                for (long j = 0; j < tile.columns; ++j) total[j] += total[c * plan.columns + j];
            clipper.write(tile, total);
        }
    });
}

}  // namespace

void clipped_sum(const ClipRequest& request) {
    const ClipPlan plan(request);
    const Clipper clipper(request, plan);
    plan.chunk_count(request.rows) > 1 ? by_rows(request, plan, clipper) : by_columns(request, plan, clipper);
}

}  // namespace tightdp
