// Runs kernels that take microseconds on several threads. The threads belong to PyTorch's pool (openmp.hpp), or to a
// pool of our own.
//
// The results of the kernels do not depend on the number of threads. The files of the kernels say why.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "work_budget.hpp"

namespace tightdp {

// Returns the number of threads that kernels use, at least 1: the number of processors that this process may run on,
// unless TIGHTDP_NUM_THREADS or set_max_threads says otherwise.
int max_threads() noexcept;
void set_max_threads(int count) noexcept;  // count >= 1

// Calls body(context, worker, workers) once for each worker in [0, workers), all at the same time. Worker 0 is the
// calling thread. The function returns when all calls have returned. The number `workers` is at most `wanted`. It is
// smaller if threads are slow to start because their processors are taken, and it is 1 if the pool serves another
// caller. The body must not throw and must not call run_parallel. Within a parallel loop of PyTorch's runtime, the
// calling thread works alone. The function may be called after fork, since the child starts its own pool.
void run_parallel(int wanted, void (*body)(void*, int, int), void* context);

template <class Body>
void parallel(int wanted, Body&& body) {
    run_parallel(wanted, [](void* f, int worker, int workers) { (*static_cast<Body*>(f))(worker, workers); }, &body);
}

// Makes the workers of a job wait for each other. A job is one call of parallel(). A worker spins, since most waits
// take microseconds. During a longer wait, as on a machine with more threads than processors, the worker yields its
// processor.
class SpinBarrier {
  public:
    void wait(int workers) noexcept;

  private:
    std::atomic<int> arrived_{0};
    std::atomic<unsigned> generation_{0};
};

// A flag that tells the threads of a job to stop. The calling thread, worker 0, sets the flag when it is asked to stop,
// and the other threads read the flag.
class StopFlag {
  public:
    // Returns whether the job has to stop. Each thread calls this function before each piece of work. `units` is the
    // work for the piece, in the units of work_budget.hpp. The function spends this work, and sets the flag if the
    // thread is asked to stop.
    bool must_stop(std::int64_t units) noexcept {
        if (raised_.load(std::memory_order_relaxed)) return true;
        if (work::asked_to_stop(units)) raised_.store(true, std::memory_order_relaxed);
        return raised_.load(std::memory_order_relaxed);
    }
    // Throws Interrupted if the flag was set. The calling thread calls this function after the job.
    void throw_if_stopped() const {
        if (raised_.load(std::memory_order_relaxed)) throw Interrupted{};
    }

  private:
    std::atomic<bool> raised_{false};
};

// Calls body(begin, end) on pieces of [0, total) of at most `grain` items. Each thread takes the next piece when it is
// free. The calling thread thus works until no piece is left, and all this time it can be asked to stop. `units` is an
// upper bound on the work for a piece, in the units of work_budget.hpp. If the caller was asked to stop, the function
// throws Interrupted after all pieces that were begun are done. The body must not throw.
template <class Body>
void parallel_pieces(std::size_t total, std::size_t grain, std::int64_t units, Body&& body) {
    const std::size_t pieces = total / grain + (total % grain != 0);
    const std::size_t wanted =
        pieces < static_cast<std::size_t>(max_threads()) ? pieces : static_cast<std::size_t>(max_threads());
    std::atomic<std::size_t> next{0};
    StopFlag stop;
    parallel(static_cast<int>(wanted), [&](int, int) {
        for (std::size_t piece;
             (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces && !stop.must_stop(units);) {
            const std::size_t begin = piece * grain;
            body(begin, total - begin < grain ? total : begin + grain);
        }
    });
    stop.throw_if_stopped();
}

struct Range {
    std::size_t begin, end;
};
// Returns the range within [0, total) that belongs to worker `worker`. Each end of the range is a multiple of `grain`
// or equals `total`.
inline Range share(std::size_t total, std::size_t grain, int worker, int workers) noexcept {
    const std::size_t pieces = (total + grain - 1) / grain;
    const auto at = [&](int w) {
        const std::size_t edge = pieces * static_cast<std::size_t>(w) / static_cast<std::size_t>(workers) * grain;
        return edge < total ? edge : total;
    };
    return {at(worker), at(worker + 1)};
}

}  // namespace tightdp
