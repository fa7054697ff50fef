#include "contour_batch.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

namespace tightdp::contour {
namespace {

// Settings handed to a thread at a time: small beside the work, large beside the cost of the counter.
constexpr long kChunk = 16;

void one(double sigma, double q, double steps, double delta, double tolerance, double& lower, double& upper,
         unsigned char& status) {
    const bool plain = q == 1;
    const Sampled sampled{sigma, q, steps};
    const std::span<const Sampled> parts = plain ? std::span<const Sampled>{} : std::span(&sampled, 1);
    const double mu2 = plain ? steps / (sigma * sigma) : 0;
    lower = upper = 0;
    status = 1;
    for (const bool add : {false, true}) {
        const Result r = epsilon({parts, mu2, add}, delta, tolerance);
        if (r.status != Status::certified) {
            upper = std::numeric_limits<double>::infinity();
            lower = 0;
            status = 0;
            return;
        }
        lower = std::max(lower, r.lower);
        upper = std::max(upper, r.upper);
        if (plain) return;
    }
}

}  // namespace

void epsilon_batch(long n, const double* sigma, const double* q, const double* steps, const double* delta,
                   double tolerance, int threads, double* lower, double* upper, unsigned char* status) {
    std::atomic<long> next{0};
    const auto work = [&] {
        for (long from; (from = next.fetch_add(kChunk)) < n;)
            for (long i = from; i < std::min(n, from + kChunk); ++i)
                one(sigma[i], q[i], steps[i], delta[i], tolerance, lower[i], upper[i], status[i]);
    };
    std::vector<std::thread> pool;
    for (int i = 1; i < std::min<long>(threads, n / kChunk + 1); ++i) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
}

}  // namespace tightdp::contour
