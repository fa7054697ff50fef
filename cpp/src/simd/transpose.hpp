// Transposes a square block of kLanes x kLanes doubles that is held in registers.
#pragma once

#include <utility>

#include "vec.hpp"

namespace tightdp::TIGHTDP_ISA {

// Exchanges numbers of two rows, where `a` is row i and `b` is row i + S. The columns are divided into groups of 2 S.
// In each group, the last S numbers of `a` are exchanged with the first S numbers of `b`. After the calls for all i
// without the bit S, each block of 2 S x 2 S numbers has exchanged its two off-diagonal blocks of S x S numbers.
template <int S, int... L>
TIGHTDP_VINLINE void exchange_vec_lanes(Vec& a, Vec& b, std::integer_sequence<int, L...>) {
    const Vec low = __builtin_shufflevector(a, b, ((L & S) == 0 ? L : kLanes + L - S)...);
    b = __builtin_shufflevector(a, b, ((L & S) == 0 ? L + S : kLanes + L)...);
    a = low;
}

template <int S>
TIGHTDP_VINLINE void exchange_vec_rows(Vec (&rows)[kLanes]) {
    if constexpr (S < kLanes) {
        for (int i = 0; i < kLanes; ++i)
            if ((i & S) == 0) exchange_vec_lanes<S>(rows[i], rows[i + S], std::make_integer_sequence<int, kLanes>{});
        exchange_vec_rows<2 * S>(rows);
    }
}

// Exchanges rows[i][j] and rows[j][i] for all i and j.
TIGHTDP_VINLINE void transpose(Vec (&rows)[kLanes]) {
    exchange_vec_rows<1>(rows);
}

}  // namespace tightdp::TIGHTDP_ISA
