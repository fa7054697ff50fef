#include "parallel.hpp"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "openmp.hpp"
#include "per_process.hpp"
#include "system.hpp"

namespace tightdp {
namespace {

void pause_spinning() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Number of pauses after which a helper, a thread of the pool, goes to sleep while it waits for a job. A pause takes 10
// to 50 ns, so a helper spins for 60 to 300 microseconds. This time is longer than the gap between two steps of
// training on small batches, and a fiftieth of the time for which OpenMP spins.
constexpr int kSpins = 6000;

// Number of pauses at a barrier after which a thread yields its processor. The pauses take a few microseconds. A thread
// that has not arrived by then has most likely lost its processor.
constexpr int kBarrierSpins = 200;

int count_parallel_threads() noexcept {
    if (const char* text = std::getenv("TIGHTDP_NUM_THREADS")) {
        const std::int64_t n = std::strtol(text, nullptr, 10);
        if (n >= 1 && n <= 1024) return static_cast<int>(n);
    }
    if (const int n = system::count_processors(); n > 0) return n;
    const unsigned n = std::thread::hardware_concurrency();
    return n ? static_cast<int>(n) : 1;
}

std::atomic<int> thread_limit{count_parallel_threads()};

// Longest time for which a job waits for threads that sleep or have lost their processor. The job then starts without
// these threads. Waking a thread took 30 to 210 microseconds on a virtual machine whose processor slept as well. The
// limit is a tenth of a scheduler's time slice.
constexpr std::chrono::microseconds kJoin{250};

class Pool {
  public:
    // Runs a job as run_parallel does. Returns false, without a call of the body, if another caller uses the pool.
    bool run_job(int wanted, void (*body)(void*, int, int), void* context) {
        std::unique_lock lock(busy_, std::try_to_lock);
        if (!lock) return false;
        start_helpers(wanted - 1);
        body_ = body;
        context_ = context;
        places_ = std::min(wanted - 1, static_cast<int>(helpers_.size()));
        finished_.store(0);
        team_.store(0);
        keep_threads_off_processor();
        epoch_.fetch_add(1);
        epoch_.notify_all();
        const auto deadline = std::chrono::steady_clock::now() + kJoin;
        while (team_.load() < places_ && std::chrono::steady_clock::now() < deadline) pause_spinning();
        const int helpers = team_.fetch_or(kClosed);
        body(context, 0, helpers + 1);
        for (int spin = 0, done; (done = finished_.load()) < helpers; ++spin)
            spin < kSpins ? pause_spinning() : finished_.wait(done);
        return true;
    }

  private:
    static constexpr int kClosed = 1 << 30;

    void start_helpers(int helpers) {
        try {
            while (static_cast<int>(helpers_.size()) < helpers) {
                helpers_.reserve(helpers_.size() + 1);
                std::thread thread(&Pool::serve_jobs, this);
                helpers_.push_back(thread.native_handle());
                thread.detach();
                avoided_ = -1;
            }
        } catch (const std::system_error&) {  // the system grants no more threads, so the team is smaller
        }
    }

    // Keeps the helpers off the caller's processor, on systems that would wake them there.
    void keep_threads_off_processor() noexcept {
        const int here = system::processor_to_leave();
        if (here < 0 || here == avoided_) return;
        avoided_ = here;
        system::keep_off(here, helpers_);
    }

    // The loop of a helper. A helper takes the next place in the team, waits until the team is closed, and works. A
    // helper that is too late, or finds all places taken, waits for the next job.
    void serve_jobs() {
        std::fesetenv(FE_DFL_ENV);  // the thread that started this one may round in another mode
        for (unsigned seen = 0;;) {
            for (int spin = 0; epoch_.load() == seen; ++spin) spin < kSpins ? pause_spinning() : epoch_.wait(seen);
            seen = epoch_.load();
            int place = team_.load();
            while (place < places_ && !team_.compare_exchange_weak(place, place + 1)) {
            }
            if (place >= places_) continue;  // kClosed, the flag of a closed team, exceeds any number of places
            int team;
            while (!((team = team_.load()) & kClosed)) pause_spinning();
            body_.load()(context_.load(), place + 1, (team & ~kClosed) + 1);
            finished_.fetch_add(1);
            finished_.notify_all();
        }
    }

    std::mutex busy_;
    std::atomic<unsigned> epoch_{0};
    std::atomic<int> team_{kClosed}, finished_{0}, places_{0};
    std::vector<std::thread::native_handle_type> helpers_;
    int avoided_ = -1;  // the processor that helpers are kept off
    std::atomic<void (*)(void*, int, int)> body_{nullptr};
    std::atomic<void*> context_{nullptr};
};

}  // namespace

int max_threads() noexcept {
    return thread_limit.load();
}

void set_max_threads(int count) noexcept {
    thread_limit.store(count);
}

void run_parallel(int wanted, void (*body)(void*, int, int), void* context) {
    if (wanted > 1) switch (openmp::run_in_openmp_pool(wanted, body, context)) {
            case openmp::Outcome::kDone:
                return;
            case openmp::Outcome::kBusy:
                break;
            case openmp::Outcome::kNone:
                if (PerProcess<Pool>::get().run_job(wanted, body, context)) return;
        }
    body(context, 0, 1);
}

void SpinBarrier::wait(int workers) noexcept {
    const unsigned generation = generation_.load();
    if (arrived_.fetch_add(1) + 1 == workers) {
        arrived_.store(0);
        generation_.fetch_add(1);
        return;
    }
    for (int spin = 0; generation_.load() == generation; ++spin)
        spin < kBarrierSpins ? pause_spinning() : std::this_thread::yield();
}

}  // namespace tightdp
