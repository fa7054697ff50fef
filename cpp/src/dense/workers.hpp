// How many threads pay for the loops over dense layers.
#pragma once

#include <algorithm>

#include "runtime/parallel.hpp"

namespace tightdp {

// As many threads as have 2^17 multiplications each: to wake one takes tens of microseconds.
inline int workers_for(double multiplications) noexcept {
    return static_cast<int>(std::clamp(multiplications / (1 << 17), 1.0, static_cast<double>(max_threads())));
}

}  // namespace tightdp
