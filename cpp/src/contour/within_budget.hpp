// One question's budget of work, and the result of a question that spends it.
#pragma once

#include <new>

#include "result.hpp"
#include "runtime/work.hpp"

namespace tightdp::contour {

// solve(), declined where it takes too much work or memory: the caller turns to another engine. Interrupted passes.
template <class Solve>
Result within_budget(const Solve& solve) {
    const work::Budget budget(1'000'000'000);  // a thousand parts take a third of it
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
