// Computes bounds on epsilon for many settings, on several threads. A setting is a noise multiplier, a sampling
// probability, a number of steps and a delta.
#include "epsilon_batch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "contour/direct_bounds.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::contour {
namespace {

// Number of settings that a thread takes at a time. With larger chunks, some threads would finish early. With smaller
// chunks, the shared counter would cost more.
constexpr std::int64_t kChunk = 16;

void bound_one_setting(double sigma, double q, double steps, double delta, double tolerance, double& lower,
                       double& upper, unsigned char& status) {
    const bool plain = q == 1;
    const Sampled sampled{sigma, q, steps};
    const std::span<const Sampled> parts = plain ? std::span<const Sampled>{} : std::span(&sampled, 1);
    const double mu2 = plain ? steps / (sigma * sigma) : 0;
    Result r = epsilon({parts, mu2, Direction::remove}, delta, tolerance);
    // The direction "add" changes neither end if its largest loss is at most the lower end for "remove".
    const double most = steps * bound_contour_add_loss_directly(q) * (1 + 18 * kUnitRoundoff);
    if (r.status == Status::certified && !plain && !(most <= r.lower))
        r = worse_result(r, epsilon({parts, mu2, Direction::add}, delta, tolerance));
    const bool certified = r.status == Status::certified;
    lower = certified ? r.lower : 0;
    upper = certified ? r.upper : HUGE_VAL;
    status = certified;
}

// Threads that compute in addition to the calling thread. If the calling thread is told to stop while it waits, these
// threads stop as well.
class Helpers {
  public:
    template <class Body>
    Helpers(int count, Body& body) : running_(count) {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([this, &body] {
                const work::StopsOn on(&stop_);
                try {
                    body();
                } catch (const Interrupted&) {  // the caller throws the same exception
                }
                const std::lock_guard lock(mutex_);
                --running_;
                done_.notify_all();
            });
    }

    // Waits until no thread is running any more. Throws Interrupted if the calling thread is told to stop. The
    // destructor then stops the threads.
    void wait_for_batch_helpers() {
        using namespace std::chrono_literals;
        std::unique_lock lock(mutex_);
        while (!done_.wait_for(lock, 20ms, [this] { return running_ == 0; }))
            work::check_work_stop(work::thread_work_counter());
    }

    ~Helpers() {
        stop_ = true;
        for (std::thread& thread : threads_) thread.join();
    }

  private:
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable done_;
    int running_;
    std::vector<std::thread> threads_;  // not std::jthread, which some versions of libc++ lack
};

}  // namespace

void epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps, const double* delta,
                   double tolerance, int threads, double* lower, double* upper, unsigned char* status) {
    std::atomic<std::int64_t> next{0};
    const auto body = [&] {
        for (std::int64_t from; (from = next.fetch_add(kChunk)) < n;)
            for (std::int64_t i = from; i < std::min(n, from + kChunk); ++i)
                bound_one_setting(sigma[i], q[i], steps[i], delta[i], tolerance, lower[i], upper[i], status[i]);
    };
    Helpers helpers(static_cast<int>(std::min<std::int64_t>(threads, n / kChunk + 1)) - 1, body);
    body();
    helpers.wait_for_batch_helpers();
}

}  // namespace tightdp::contour
