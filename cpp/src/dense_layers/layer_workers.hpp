// Chooses the number of threads for the loops over dense layers, and divides rows among them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/parallel.hpp"

namespace tightdp {

// Returns a number of threads with which each thread has at least 2^17 multiplications, or 1 if there are too few for
// two threads. A thread with fewer multiplications would save less time than it takes to wake a thread, which is tens
// of microseconds.
inline int choose_layer_workers(double multiplications) noexcept {
    return static_cast<int>(std::clamp(multiplications / (1 << 17), 1.0, static_cast<double>(max_threads())));
}

// Calls body(first, count) on several threads, each with its share of the rows. All shares but the last are multiples
// of `grain` rows. `multiplications` is the work for all rows together.
template <class Body>
void share_layer_rows(std::int64_t rows, double multiplications, std::int64_t grain, const Body& body) {
    parallel(choose_layer_workers(multiplications), [&](int worker, int workers) {
        const Range mine = share(static_cast<std::size_t>(rows), static_cast<std::size_t>(grain), worker, workers);
        if (mine.begin < mine.end)
            body(static_cast<std::int64_t>(mine.begin), static_cast<std::int64_t>(mine.end - mine.begin));
    });
}

}  // namespace tightdp
