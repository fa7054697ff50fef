// Threads for kernels that take microseconds: those that PyTorch's operations run in (openmp.hpp), or a pool of our
// own.
//
// The kernels' results do not depend on how many threads run: see the files that use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "work.hpp"

namespace tightdp {

// Returns the number of threads that kernels use, at least 1: the number of processors that this process may run on,
// unless TIGHTDP_NUM_THREADS or set_max_threads says otherwise.
int max_threads() noexcept;
void set_max_threads(int count) noexcept;  // count >= 1

// Calls body(context, worker, workers) once for each worker in [0, workers), all at the same time; worker 0
// is the calling thread. Returns when all have returned. `workers` is `wanted`, or fewer where threads
// are slow to come (their processors are taken), or 1 where the pool serves another caller just now. The body
// must not throw and must not call run_parallel. Within a parallel loop of PyTorch's runtime, the calling thread works
// alone. Safe after fork: the child starts its own pool.
void run_parallel(int wanted, void (*body)(void*, int, int), void* context);

template <class Body>
void parallel(int wanted, Body&& body) {
    run_parallel(wanted, [](void* f, int worker, int workers) { (*static_cast<Body*>(f))(worker, workers); }, &body);
}

// Makes the workers of a job wait for each other. It spins, since the wait takes microseconds, and yields when the wait
// is longer, as on a machine with more threads than processors.
class SpinBarrier {
  public:
    void wait(int workers) noexcept;

  private:
    std::atomic<int> arrived_{0};
    std::atomic<unsigned> generation_{0};
};

// A flag for the threads of a job: the calling thread, worker 0, raises it when it is asked to stop, and the
// others see it.
class StopFlag {
  public:
    // Asked once a piece of work of so many units (work.hpp).
    bool raised(std::int64_t units) noexcept {
        if (raised_.load(std::memory_order_relaxed)) return true;
        if (work::asked_to_stop(units)) raised_.store(true, std::memory_order_relaxed);
        return raised_.load(std::memory_order_relaxed);
    }
    // After the job: Interrupted if it was cut short.
    void rethrow() const {
        if (raised_.load(std::memory_order_relaxed)) throw Interrupted{};
    }

  private:
    std::atomic<bool> raised_{false};
};

// Calls body(begin, end) on pieces of [0, total) of at most `grain`, which threads take as they come free:
// the caller is at work, and can be asked to stop, to the end. `units` of work a piece, or more. Throws
// Interrupted once the pieces that were begun are done. The body must not throw.
template <class Body>
void parallel_pieces(std::size_t total, std::size_t grain, std::int64_t units, Body&& body) {
    const std::size_t pieces = total / grain + (total % grain != 0);
    const std::size_t wanted =
        pieces < static_cast<std::size_t>(max_threads()) ? pieces : static_cast<std::size_t>(max_threads());
    std::atomic<std::size_t> next{0};
    StopFlag stop;
    parallel(static_cast<int>(wanted), [&](int, int) {
        for (std::size_t piece;
             (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces && !stop.raised(units);) {
            const std::size_t begin = piece * grain;
            body(begin, total - begin < grain ? total : begin + grain);
        }
    });
    stop.rethrow();
}

// The share of worker `worker` in [0, total), in multiples of `grain`.
struct Range {
    std::size_t begin, end;
};
inline Range share(std::size_t total, std::size_t grain, int worker, int workers) noexcept {
    const std::size_t pieces = (total + grain - 1) / grain;
    const auto at = [&](int w) {
        const std::size_t edge = pieces * static_cast<std::size_t>(w) / static_cast<std::size_t>(workers) * grain;
        return edge < total ? edge : total;
    };
    return {at(worker), at(worker + 1)};
}

}  // namespace tightdp
