#include "work_budget.hpp"

namespace tightdp::work {

namespace {
std::atomic<std::int64_t> of_all_threads{0};
}

std::int64_t work_passed_by_all_threads() noexcept {
    return of_all_threads.load(std::memory_order_relaxed);
}

void check_work_stop(Counter& c) {
    of_all_threads.fetch_add(c.passed - c.looked, std::memory_order_relaxed);
    c.looked = c.passed;
    if ((c.stop && c.stop->load(std::memory_order_relaxed)) || (c.signalled && c.signalled())) throw Interrupted{};
}

}  // namespace tightdp::work
