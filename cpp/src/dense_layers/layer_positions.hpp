// Computes integers and inner products of records that pass a layer at several positions, on several threads
// (docs/theory/exact-products.md, section 9).
#pragma once

#include "layer_positions.simd.hpp"

namespace tightdp {

template <class T, class Integer>
void scale_position_rows(const ScaledRows<T, Integer>& rows);

// Rounds rows to integers of about `digits` binary digits. The factors and the integers are the same as if row_units
// computed the factors, without a bias, and scale_position_rows the integers.
template <class T>
void round_position_rows(const RoundedRows<T>& request);

// Computes InnerProducts for the records of the request, whose `scratch` is not used.
template <class Integer>
void multiply_positions(const InnerProducts<Integer>& request);

}  // namespace tightdp
