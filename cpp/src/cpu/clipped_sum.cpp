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
            for (std::size_t stripe = stripes.begin; stripe < stripes.end; ++stripe) {
                double squares[kBlockRows] = {};
                for (std::size_t t = plan_.stripes[stripe]; t < plan_.stripes[stripe + 1]; ++t) {
                    const ClipTile& tile = plan_.tiles[t];
                    alignas(64) double local[kTileColumns];
                    double* const to = sums ? sums + tile.first : local;
                    add(now, tile, to, now.begin == begin, overlap ? &next : nullptr, squares,
                        plan_.tiles[std::min(t + 1, last_tile)]);
                    if (last && finish) write(tile, to);
                }
                if (overlap)
                    std::copy_n(squares, next.count(), of_stripe(team, parity ^ 1, stripe, block.rows));
            }
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

    double* of_stripe(Team& team, unsigned parity, std::size_t stripe,
                      std::size_t block_rows) const noexcept {
        return team.squares.data() + (parity * plan_.stripe_count() + stripe) * block_rows;
    }

    // Row by row, as the data lie in memory.
    void norms(const Rows& rows, Team& team, unsigned parity, Range stripes,
               std::size_t block_rows) const noexcept {
        for (std::size_t i = 0; i < rows.count(); ++i)
            for (std::size_t s = stripes.begin; s < stripes.end; ++s) {
                double square = 0;
                for (std::size_t t = plan_.stripes[s]; t < plan_.stripes[s + 1]; ++t) {
                    const ClipTile& tile = plan_.tiles[t];
                    square += kernels_.squares(at(rows.begin + i, tile), tile.columns, transform(tile));
                }
                of_stripe(team, parity, s, block_rows)[i] = square;
            }
    }

    void factors(Rows& rows, Team& team, unsigned parity, std::size_t block_rows,
                 bool report) const noexcept {
        for (std::size_t i = 0; i < rows.count(); ++i) {
            double square = 0;
            for (std::size_t s = 0; s < plan_.stripe_count(); ++s)
                square += of_stripe(team, parity, s, block_rows)[i];
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

    // Adds the block's rows in groups of four and takes the squares of the next block's, if any, on the way.
    void add(const Rows& rows, const ClipTile& tile, double* to, bool fresh, const Rows* next,
             double* squares, const ClipTile& after) const noexcept {
        if (rows.count() == 0 && fresh) std::fill_n(to, tile.columns, 0.0);
        for (std::size_t g = 0; g < rows.count(); g += kGroup) {
            const void *pieces[kGroup], *coming[kGroup], *soon[kGroup];
            double factor[kGroup];
            for (std::size_t i = 0; i < kGroup; ++i) {
                const std::size_t row = g + i;
                factor[i] = row < rows.count() ? rows.factors[row] : 0.0;
                pieces[i] = factor[i] > 0 ? static_cast<const void*>(at(rows.begin + row, tile)) : kZeroRow;
                coming[i] = soon[i] = kZeroRow;
                if (next && row < next->count()) {
                    coming[i] = at(next->begin + row, tile);
                    soon[i] = at(next->begin + row, after);
                } else if (factor[i] > 0) {
                    soon[i] = at(rows.begin + row, after);
                }
            }
            kernels_.add(to, pieces, factor, tile.columns, fresh && g == 0,
                         next && g < next->count() ? coming : nullptr, squares + g, soon, transform(tile));
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
