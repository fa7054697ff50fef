#include "parallel.hpp"

#include <pthread.h>
#include <sched.h>

#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

namespace tightdp {
namespace {

void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// About 20 microseconds: longer than the gap between two steps of training on small batches, short enough
// that an idle pool costs nothing.
constexpr int kSpins = 1000;

// A few microseconds: past that the other thread has most likely lost its processor.
constexpr int kBarrierSpins = 200;

int processors() noexcept {
    if (const char* text = std::getenv("TIGHTDP_NUM_THREADS")) {
        const long n = std::strtol(text, nullptr, 10);
        if (n >= 1 && n <= 1024) return static_cast<int>(n);
    }
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    const unsigned n = std::thread::hardware_concurrency();
    return n ? static_cast<int>(n) : 1;
}

std::atomic<int>& thread_limit() noexcept {
    static std::atomic<int> limit{processors()};
    return limit;
}

class Pool {
  public:
    // False where another caller holds the pool.
    bool run(int workers, void (*body)(void*, int, int), void* context) {
        std::unique_lock lock(busy_, std::try_to_lock);
        if (!lock) return false;
        try {
            // A worker that starts now must wait for the job about to be posted, not for the last one.
            for (; started_ < workers - 1; ++started_)
                std::thread(&Pool::serve, this, started_ + 1, epoch_.load()).detach();
        } catch (const std::system_error&) {
            workers = started_ + 1;
        }
        body_ = body;
        context_ = context;
        workers_ = workers;
        pending_.store(started_);
        epoch_.fetch_add(1);
        epoch_.notify_all();
        body(context, 0, workers);
        for (int spin = 0; int left = pending_.load(); ++spin) spin < kSpins ? pause() : pending_.wait(left);
        return true;
    }

  private:
    void serve(int worker, unsigned seen) {
        for (;;) {
            for (int spin = 0; epoch_.load() == seen; ++spin) spin < kSpins ? pause() : epoch_.wait(seen);
            seen = epoch_.load();
            if (worker < workers_) body_(context_, worker, workers_);
            if (pending_.fetch_sub(1) == 1) pending_.notify_all();
        }
    }

    std::mutex busy_;
    std::atomic<unsigned> epoch_{0};
    std::atomic<int> pending_{0};
    int started_ = 0, workers_ = 0;
    void (*body_)(void*, int, int) = nullptr;
    void* context_ = nullptr;
};

// Never destroyed: its detached threads may outlive static destruction. After fork the child has none of
// those threads, so it gets a new pool and the old one is leaked.
std::atomic<Pool*>& current_pool() {
    static std::atomic<Pool*> pool{[] {
        pthread_atfork(nullptr, nullptr, [] { current_pool().store(new Pool); });
        return new Pool;
    }()};
    return pool;
}

}  // namespace

int max_threads() noexcept {
    return thread_limit().load();
}

void set_max_threads(int count) noexcept {
    thread_limit().store(count);
}

void run_parallel(int wanted, void (*body)(void*, int, int), void* context) {
    if (wanted <= 1 || !current_pool().load()->run(wanted, body, context)) body(context, 0, 1);
}

void SpinBarrier::wait(int workers) noexcept {
    const unsigned generation = generation_.load();
    if (arrived_.fetch_add(1) + 1 == workers) {
        arrived_.store(0);
        generation_.fetch_add(1);
        return;
    }
    for (int spin = 0; generation_.load() == generation; ++spin)
        spin < kBarrierSpins ? pause() : (void)sched_yield();
}

}  // namespace tightdp
