// Adaptively chosen steps of bounded range: the worst adversary's curve by value iteration (docs/theory/filters.md section 9).
#pragma once

#include <cstddef>

namespace tightdp {

// Upper bounds of delta at the losses (i - count * cells) eta / cells, i = 0 .. 2 count cells, for `count` steps that an
// adversary chooses one by one among all that have privacy losses within some interval of length eta.
// Between those losses delta is at most linear in e^eps. Pre: 1e-8 <= eta <= 500, count >= 1, cells >= 1, `curve` has
// 2 count cells + 1 entries. Time: (count cells)^2 / 1e9 seconds or so. Rounded up. Throws std::bad_alloc.
void worst_selections(double eta, std::size_t count, std::size_t cells, double* curve);

}  // namespace tightdp
