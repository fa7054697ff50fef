// The budget of work of one call of the contour engine.
#pragma once

#include <new>

#include "result.hpp"
#include "runtime/work.hpp"

namespace tightdp::contour {

// Returns solve(), or a result that is not certified if solve() takes too much work or memory. In the second case the
// caller uses another engine. The exception Interrupted is not caught.
template <class Solve>
Result within_budget(const Solve& solve) {
    const work::Budget budget(1'000'000'000);  // units of runtime/work.hpp, of which a thousand parts take a third
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
