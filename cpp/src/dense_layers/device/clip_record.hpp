// The formulas by which the threads of a device clip records (docs/theory/exact-products.md, sections 3 and 7). The
// results have the same bits as on the CPU (clip_gradients.exact.simd.cpp and layer_rows.exact.simd.cpp). Compile
// without contraction of a * b + c to fused multiply-adds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dense_layers/product_sum.hpp"
#include "dense_layers/product_way.hpp"
#include "tightdp/config.hpp"

namespace tightdp::cuda {

// A layer of a product sum. For each row of inputs, `rounding_factors` has the factor by which the row is multiplied
// before it is rounded to integers, and `squares` has the squared norm of these integers (RowKernels::factors).
struct DeviceLayer {
    const void *inputs, *errors;
    std::int64_t columns, outputs;
    double *rounding_factors, *squares;

    // True if rows and weights are not rounded. Their products are truncated to integers instead (DenseLayer::formed).
    TIGHTDP_HD bool is_formed_device_layer() const { return outputs == 1; }
};

// The arguments of clip_device_layer_record, for the records [first, first + rows) of a batch. `bound` is the clipping norm
// divided by the grid, a power of two of which all gradients are multiples. DenseClip has the same members and explains
// them.
struct DeviceClipRecords {
    const DeviceLayer* layers;
    std::int64_t layer_count, first, rows;
    double bound;
    const double* bounds;
    double inverse_grid, slack;
    const std::uint8_t* taken;
    double* weights;  // output [outputs of all layers][rows]
};

// Counterparts of constants and functions in layer_vectors.hpp and clip_gradients.exact.simd.cpp: the largest error (in
// units of the weights) that counts as finite, the relative difference between the norm that clipping aims at and the
// bound, and the limits of the squared norm of a row.
inline constexpr double kDeviceFinite = 0x1p1022, kDeviceSlack = 0x1p-36;
inline constexpr double kDeviceLeastSquare = 0x1p-800, kDeviceLargestSquare = 0x1p800;
TIGHTDP_HD inline double nearest_device_layer_integer(double x) {
    constexpr double kNearest = 6755399441055744.0;
    return (x + kNearest) - kNearest;
}
TIGHTDP_HD inline double power_below_device_layer_number(double x) {
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, &x, sizeof bits);
    bits &= 0x7ff0000000000000ull;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
TIGHTDP_HD inline double confine_device_layer_number(double x, double most) {
    const double up = x > -most ? x : -most;
    return up < most ? up : most;
}

// Returns the rounding factor of a row with the norm sqrt(square), or 0 if the row contributes nothing. The row times
// the rounding factor, rounded to integers, has a norm in about [least, 2 least). If `least` is 0, the rounding factor
// is 1, and the row stays as it is.
TIGHTDP_HD inline double device_layer_rounding_factor(double square, double least) {
    if (!(square <= kDeviceLargestSquare)) return 0;  // NaN too
    if (square < kDeviceLeastSquare || least == 0) return 1;
    return least / power_below_device_layer_number(sqrt(square));
}

// Computes sum_l squares_l[k] sum_o (scale w_lo)^2 for record first + k, over layers l and outputs o, where w_lo are
// the record's numbers in `weights`. For scale 1 the sum is at least the squared norm of the record's contribution.
TIGHTDP_HD inline double sum_device_record_squares(const DeviceClipRecords& c, std::int64_t k, double scale) {
    double sum = 0;
    const double* v = c.weights + k;
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        double part = 0;
        for (std::int64_t o = 0; o < c.layers[l].outputs; ++o, v += c.rows) {
            const double x = *v * scale;
            part += x * x;
        }
        sum += part * c.layers[l].squares[k];
    }
    return sum;
}

// Computes the weights of record first + k, and writes them to c.weights. A weight is an error of the record times its
// clip factor, divided by the grid and by the row's rounding factor. Weights are rounded to integers unless the layer
// is formed. If the contribution with the rounded weights exceeds the bound, all weights of the record become 0.
template <class T>
TIGHTDP_HD inline void clip_device_layer_record(const DeviceClipRecords& c, std::int64_t k) {
    double top = !c.taken || c.taken[c.first + k] ? 0.0 : 2 * kDeviceFinite;
    double* v = c.weights + k;
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        const DeviceLayer& layer = c.layers[l];
        const T* const errors = static_cast<const T*>(layer.errors) + (c.first + k) * layer.outputs;
        const double rounding_factor = layer.rounding_factors[k],
                     units = rounding_factor > 0 && layer.squares[k] > 0 ? c.inverse_grid / rounding_factor : 0.0;
        if (!(rounding_factor > 0)) top = 2 * kDeviceFinite;
        for (std::int64_t o = 0; o < layer.outputs; ++o, v += c.rows) {
            *v = static_cast<double>(errors[o]) * units;
            const double size = fabs(*v), kept = size <= kDeviceFinite ? size : 2 * kDeviceFinite;  // NaN too
            top = kept > top ? kept : top;
        }
    }
    // The host has not checked bounds in device memory. A bound outside of [0, c.bound] is replaced by the nearer end,
    // and NaN by 0.
    const double own = c.bounds ? c.bounds[c.first + k] : c.bound, bound = own >= 0 ? fmin(own, c.bound) : 0.0;
    const double scale = top <= kDeviceFinite ? 1.0 / power_below_device_layer_number(top > 0x1p-1000 ? top : 0x1p-1000) : 0.0;
    const double square = sum_device_record_squares(c, k, scale);
    double margin = 0;
    for (std::int64_t l = 0; l < c.layer_count; ++l)
        margin +=
            (c.layers[l].is_formed_device_layer() ? 0.0 : static_cast<double>(c.layers[l].outputs)) * c.layers[l].squares[k];
    const double reach = 1 - (kDeviceSlack + 2 * c.slack), goal = bound * reach - 0.5 * sqrt(margin);
    double factor = goal / sqrt(square);
    const double whole = 1.0 / scale;
    factor = factor < whole ? factor : whole;
    factor = square > 0 && goal > 0 ? factor : 0.0;
    v = c.weights + k;
    for (std::int64_t l = 0; l < c.layer_count; ++l)
        for (std::int64_t o = 0; o < c.layers[l].outputs; ++o, v += c.rows) {
            const double w = scale > 0 ? *v * scale * factor : 0.0;
            *v = c.layers[l].is_formed_device_layer() ? w : nearest_device_layer_integer(w);
        }
    // The guarantee rests on this comparison alone.
    if (sum_device_record_squares(c, k, 1.0) <= bound * bound * (1 - c.slack)) return;
    v = c.weights + k;
    for (std::int64_t l = 0; l < c.layer_count; ++l)
        for (std::int64_t o = 0; o < c.layers[l].outputs; ++o, v += c.rows) *v = 0;
}

// Returns the number of outputs of all layers.
inline std::int64_t count_layer_outputs(const ProductSum& r) {
    std::int64_t outputs = 0;
    for (const DenseLayer& layer : r.layers) outputs += layer.outputs;
    return outputs;
}

// Returns the argument `least` of device_layer_rounding_factor for the rows of a layer. It is 0 if the rows are not rounded.
inline double least_device_layer_norm(const DeviceLayer& layer) {
    return layer.is_formed_device_layer() ? 0.0 : 0x1p14;
}

// Returns the arguments of clip_device_layer_record for `rows` records. `slack` covers the rounding errors of the comparison
// with the bound, and is the same as on the CPU.
inline DeviceClipRecords make_record_clip(const ProductSum& r, const DeviceLayer* layers, std::int64_t first,
                                          std::int64_t rows, double* weights) {
    const auto count = static_cast<std::int64_t>(r.layers.size());
    const double slack = (static_cast<double>(count_layer_outputs(r)) + static_cast<double>(count) + 16) * 0x1p-52;
    return {layers, count, first, rows, r.bound, r.bounds, r.inverse_grid, slack, r.taken, weights};
}

// Returns the number of records whose packed operands and weights take about `bytes` of memory. The number is a
// multiple of 64, and at least 64.
inline std::int64_t choose_device_product_sum_chunk(const ProductSum& r, std::int64_t bytes) {
    std::int64_t widest = 1;
    for (const DenseLayer& layer : r.layers) widest = std::max(widest, 3 * layer.outputs + 2 * layer.columns);
    const std::int64_t each = widest + 8 * count_layer_outputs(r);
    return std::max<std::int64_t>(bytes / each / 64 * 64, 64);
}

}  // namespace tightdp::cuda
