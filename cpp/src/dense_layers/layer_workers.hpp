// Chooses the number of threads for the loops over dense layers.
#pragma once

#include <algorithm>

#include "runtime/parallel.hpp"

namespace tightdp {

// Returns a number of threads with which each thread has at least 2^17 multiplications, or 1 if there are too few for
// two threads. A thread with fewer multiplications would save less time than it takes to wake a thread, which is tens
// of microseconds.
inline int choose_layer_workers(double multiplications) noexcept {
    return static_cast<int>(std::clamp(multiplications / (1 << 17), 1.0, static_cast<double>(max_threads())));
}

}  // namespace tightdp
