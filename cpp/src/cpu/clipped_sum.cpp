#include "clipped_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

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

    // Rows [begin, end), the stripes of `worker`. `sums`: one a column of the plan, or null where the rows
    // make one block and `finish` is set: then a tile's sums need no memory of their own. With `finish` the
    // last block's tiles go to the output.
    void run(Team& team, std::size_t begin, std::size_t end, int worker, int workers, double* sums,
             bool finish) const noexcept {
        const Range stripes = share(plan_.stripe_count(), 1, worker, workers);
        const std::size_t last_tile = plan_.stripes[stripes.end] - 1;
        const BlockSize block = block_size(share_bytes(workers));
        Rows now, next;
        next.set(begin, std::min(end, begin + block.rows));
        norms(next, team, 0, stripes, block.rows);
        for (unsigned parity = 0;; parity ^= 1) {
            std::swap(now, next);
            team.barrier.wait(workers);
            factors(now, team, parity, block.rows, worker == 0);
            const bool last = now.end == end;
            next.set(now.end, std::min(end, now.end + block.rows));
            const bool overlap = block.pipelined && !last;
            Ahead ahead(*this, team, overlap ? next : Rows{}, parity ^ 1, stripes, block.rows);
            for (std::size_t t = plan_.stripes[stripes.begin]; t <= last_tile; ++t) {
                const ClipTile& tile = plan_.tiles[t];
                alignas(64) double local[kTileColumns];
                double* const to = sums ? sums + tile.first : local;
                add(now, tile, to, now.begin == begin, overlap ? &ahead : nullptr);
                if (last && finish) write(tile, to);
            }
            while (ahead.any()) ahead.square();
            if (last) return;
            if (!block.pipelined) norms(next, team, parity ^ 1, stripes, block.rows);
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
    struct Rows {
        std::size_t begin = 0, end = 0;
        double factors[kBlockRows];
        void set(std::size_t from, std::size_t to) { begin = from, end = to; }
        std::size_t count() const { return end - begin; }
    };

    // The pieces of the rows to come, a tile each, in the order in which they lie in memory; their squares go
    // to the team.
    class Ahead {
      public:
        Ahead(const Clipper& clipper, Team& team, const Rows& rows, unsigned parity, Range stripes,
              std::size_t block_rows) noexcept
            : c_(clipper),
              to_(team.squares.data() + parity * clipper.plan_.stripe_count() * block_rows),
              block_rows_(block_rows),
              stripes_(stripes),
              row_(rows.begin),
              begin_(rows.begin),
              end_(rows.end) {
            start_row();
        }

        bool any() const noexcept { return row_ < end_; }

        // What comes next; `take` its squares.
        Piece piece() const noexcept {
            const ClipTile& tile = c_.plan_.tiles[tile_];
            const char* const entries = c_.at(row_, tile);
            const char* soon = entries;
            if (tile_ + 1 < c_.plan_.stripes[stripes_.end])
                soon = c_.at(row_, c_.plan_.tiles[tile_ + 1]);
            else if (row_ + 1 < end_)
                soon = c_.at(row_ + 1, c_.plan_.tiles[c_.plan_.stripes[stripes_.begin]]);
            return {entries, tile.columns, soon, c_.transform(tile)};
        }

        void take(double square) noexcept {
            square_ += square;
            if (++tile_ < c_.plan_.stripes[stripe_ + 1]) return;
            to_[stripe_ * block_rows_ + (row_ - begin_)] = square_;
            square_ = 0;
            if (++stripe_ < stripes_.end) return;
            ++row_;
            start_row();
        }

        void square() noexcept {
            const Piece p = piece();
            take(c_.kernels_.squares(p.entries, p.n, p.transform));
        }

      private:
        void start_row() noexcept {
            stripe_ = stripes_.begin;
            tile_ = c_.plan_.stripes[stripe_];
        }

        const Clipper& c_;
        double* const to_;
        const std::size_t block_rows_;
        const Range stripes_;
        std::size_t row_;
        const std::size_t begin_, end_;
        std::size_t stripe_ = 0, tile_ = 0;
        double square_ = 0;
    };

    std::size_t share_bytes(int workers) const noexcept {
        return plan_.row_bytes / static_cast<std::size_t>(workers);
    }

    const char* at(std::size_t row, const ClipTile& tile) const noexcept {
        const ClipSegment& segment = r_.segments[tile.segment];
        return static_cast<const char*>(segment.data) + static_cast<std::ptrdiff_t>(row) * segment.stride +
               static_cast<std::ptrdiff_t>(tile.column * size_);
    }

    Transform transform(const ClipTile& tile) const noexcept {
        return r_.center ? Transform{r_.center + tile.first, r_.inverse_scale + tile.first} : Transform{};
    }

    // Row by row, as the data lie in memory.
    void norms(const Rows& rows, Team& team, unsigned parity, Range stripes,
               std::size_t block_rows) const noexcept {
        for (Ahead ahead(*this, team, rows, parity, stripes, block_rows); ahead.any();) ahead.square();
    }

    void factors(Rows& rows, Team& team, unsigned parity, std::size_t block_rows,
                 bool report) const noexcept {
        for (std::size_t i = 0; i < rows.count(); ++i) {
            double square = 0;
            for (std::size_t s = 0; s < plan_.stripe_count(); ++s)
                square += team.squares.data()[(parity * plan_.stripe_count() + s) * block_rows + i];
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

    // Adds the block's rows, a few groups at a time. The squares of what is `ahead` are taken on the way: as
    // many of its pieces as there are rows, each with its share of the columns.
    void add(const Rows& rows, const ClipTile& tile, double* to, bool fresh, Ahead* ahead) const noexcept {
        if (rows.count() == 0 && fresh) std::fill_n(to, tile.columns, 0.0);
        for (std::size_t first = 0; first < rows.count();) {
            const void* pieces[kMostGroups * kGroup];
            double factor[kMostGroups * kGroup];
            const std::size_t left = rows.count() - first;
            const int groups =
                static_cast<int>(std::min<std::size_t>(kMostGroups, (left + kGroup - 1) / kGroup));
            for (std::size_t i = 0; i < static_cast<std::size_t>(groups) * kGroup; ++i) {
                factor[i] = i < left ? rows.factors[first + i] : 0.0;
                pieces[i] =
                    factor[i] > 0 ? static_cast<const void*>(at(rows.begin + first + i, tile)) : kZeroRow;
            }
            const long share = ahead ? kTileColumns / (groups * kGroup) : kTileColumns;
            for (long j = 0; j < tile.columns; j += share) {
                const long end = std::min(tile.columns, j + share);
                const bool squares = ahead && ahead->any();
                const Piece piece = squares ? ahead->piece() : Piece{};
                const double square = kernels_.add(to, pieces, factor, groups, j, end, fresh && first == 0,
                                                   squares ? &piece : nullptr, transform(tile));
                if (squares) ahead->take(square);
            }
            first += static_cast<std::size_t>(groups) * kGroup;
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

// Threads take chunks of rows in turn; the chunks' sums are added in order.
void by_rows(const ClipRequest& request, const ClipPlan& plan, const Clipper& clipper) {
    const std::size_t chunks = plan.chunk_count(request.rows);
    const int wanted = useful_workers(request.rows * plan.columns, chunks);
    AlignedArray sums(chunks * plan.columns);
    std::vector<std::unique_ptr<Clipper::Team>> teams;
    for (int i = 0; i < wanted; ++i) teams.push_back(std::make_unique<Clipper::Team>(plan.stripe_count()));
    std::atomic<std::size_t> taken{0};
    SpinBarrier summed;
    parallel(wanted, [&](int worker, int workers) {
        for (std::size_t c; (c = taken.fetch_add(1)) < chunks;) {
            const std::size_t begin = c * plan.chunk_rows,
                              end = std::min(request.rows, begin + plan.chunk_rows);
            clipper.run(*teams[worker], begin, end, 0, 1, sums.data() + c * plan.columns, false);
        }
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
