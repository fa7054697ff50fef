// The loops for records that pass a layer at several positions. They are compiled once for each instruction set, and
// all copies return the same bits (docs/theory/exact-products.md, section 9).
#pragma once

#include "layers.simd.hpp"

namespace tightdp {

// The arguments of PositionKernels::scale_positions, which computes out[k][j] = round(x[k][j] factors[k]), confined to
// [-most, most]. The integers are 0 if factors[k] is 0, since such a row may have entries that are not finite.
template <class T, class Integer>
struct ScaledRows {
    const T* x;
    std::int64_t rows, columns;
    const double* factors;
    Integer most;
    Integer* out;
};

// The arguments of round_position_rows, which computes the powers of two factors[k] and the integers out[k][j] =
// round(x[k][j] factors[k]), confined to [-most, most]. The factor of a row is chosen such that its integers have a
// norm of about 2^(digits - 1) to 2^digits. A row whose norm is above 2^400 or not finite gets the factor 0 and zeros.
// A row whose norm is below 2^-400 gets the factor 1, so its integers are zeros too.
template <class T>
struct RoundedRows {
    const T* x;
    std::int64_t rows, columns;
    int digits;
    std::int16_t most;
    double* factors;
    std::int16_t* out;
};

template <class T>
struct PositionKernels {
    void (*scale_to_short)(const ScaledRows<T, std::int16_t>& rows);
    void (*scale_to_long)(const ScaledRows<T, std::int32_t>& rows);

    void scale_positions(const ScaledRows<T, std::int16_t>& rows) const { scale_to_short(rows); }
    void scale_positions(const ScaledRows<T, std::int32_t>& rows) const { scale_to_long(rows); }
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<PositionKernels>, position_kernels, ())

// The arguments of short_inner_products and long_inner_products, which compute out[k][s][t] = sum_j x[k][s][j]
// x[k][t][j] for given integers. k is a record, and s and t are positions. Precondition: the sum over j of |x[k][s][j]
// x[k][t][j]| is at most 2^53, so that doubles hold all sums exactly.
template <class Integer>
struct InnerProducts {
    const Integer* x;  // [records][positions][columns]
    std::int64_t records, positions, columns;
    std::int16_t* scratch;  // inner_product_scratch_size(positions, columns) numbers
    double* out;            // [records][positions][positions]
};

// Rows in the scratch memory are filled up with zeros, so that their length is a multiple of kInnerColumns. Rows of
// zeros follow the last position, so that the number of rows is a multiple of kInnerPositions.
inline constexpr std::int64_t kInnerColumns = 32, kInnerPositions = 4;
constexpr std::int64_t inner_product_scratch_size(std::int64_t positions, std::int64_t columns) noexcept {
    return pad_layer_length(positions, kInnerPositions) * pad_layer_length(columns, kInnerColumns);
}

TIGHTDP_DECLARE_SIMD(void, short_inner_products, (const InnerProducts<std::int16_t>& p))
TIGHTDP_DECLARE_SIMD(void, long_inner_products, (const InnerProducts<std::int32_t>& p))

}  // namespace tightdp
