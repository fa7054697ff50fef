// The budget of work of one call of the contour engine.
#pragma once

#include <new>

#include "result.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::contour {

// Returns solve(). If solve() takes too much work or memory, returns a result that is not certified, and the caller
// then uses another engine. The exception Interrupted is not caught.
template <class Solve>
Result solve_within_budget(const Solve& solve) {
    // The budget is in units of runtime/work_budget.hpp. A composition of a thousand parts takes about a third of the
    // budget.
    const work::Budget budget(1'000'000'000);
    try {
        return solve();
    } catch (const OutOfWork&) {
        Result r;
        r.status = Status::out_of_work;
        return r;
    } catch (const std::bad_alloc&) {
        return {};
    }
}

}  // namespace tightdp::contour
