// The loops of dense layers and of the losses. The loops are compiled once for each instruction set, and all copies
// return the same bits. The results for one record depend on this record alone (docs/theory/exact-products.md).
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/dispatch.hpp"

namespace tightdp {

template <template <class> class Kernels>
struct ForBothTypes {
    Kernels<float> single;
    Kernels<double> full;

    template <class T>
    Kernels<T> of() const noexcept {
        if constexpr (std::is_same_v<T, float>)
            return single;
        else
            return full;
    }
};

// Number of columns in one line. The affine map adds inputs in lines of 64 bytes, whatever the width of the registers.
template <class T>
inline constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));

// The arguments of RowKernels::affine, which computes scores[k][o] = (sum_j inputs[k][j] weights[o][j]) + bias[o] in T.
// The sum is added in a fixed order (exact-products.md, section 1). `bias` may be null. If columns < kLine<T>, the
// weights of an output are `columns` numbers. Otherwise the weights of an output are ceil(columns / kLine<T>) lines.
// The last line covers the last kLine<T> columns, some of which the line before may cover too. The last line has
// weights of 0 for such columns.
template <class T>
struct Affine {
    const T* inputs;
    std::int64_t rows, columns, outputs;
    const T* weights;
    const T* bias;
    T* scores;
};

// The arguments of RowKernels::quantize, which computes q[k * stride + j] = round(x[k * x_stride + j]
// rounding_factors[k]) for j < columns. With a bias, round(rounding_factors[k]) follows as the entry j = columns.
template <class T>
struct QuantizedRows {
    const T* x;
    std::int64_t x_stride, rows, columns;
    bool bias;
    const double* rounding_factors;
    double* q;
    std::int64_t stride;
};

template <class T>
struct RowKernels {
    void (*affine)(const Affine<T>& a);
    // Computes for each row k a power of two, rounding_factors[k], and squares[k] = |q_k|^2. Here q_k is the row times
    // the rounding factor, rounded to integers (exact-products.md, section 2). If the rounding factor is 0, the record
    // contributes nothing. `least` is a power of two, and |q_k| lies in about [least, 2 least). If `least` is 0, rows
    // are not rounded to integers. The rounding factors are then 1 or 0, and squares[k] >= |x_k|^2. `squares` may be
    // null.
    void (*factors)(const T* x, std::int64_t rows, std::int64_t columns, bool bias, double least,
                    double* rounding_factors, double* squares);
    void (*quantize)(const QuantizedRows<T>& r);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<RowKernels>, layer_row_kernels, ())

enum class LossKind : int { logistic, multinomial, hinge };

// The arguments of the loss kernels: the scores z, an array [rows][outputs], and for each row its class in `targets`.
// `width` is the half-width h of the quadratic part of the Huberised hinge loss.
template <class T>
struct LossRequest {
    LossKind kind;
    double width;
    const T* z;
    const std::int64_t* targets;
    std::int64_t rows, outputs;
};

template <class T>
struct LossKernels {
    // Computes the derivative of the loss by z. If a score of a row is not finite, the whole row is NaN.
    void (*residual)(const LossRequest<T>& r, T* out);
    // Computes the loss of each row. The loss is NaN if a score of the row is not finite.
    void (*value)(const LossRequest<T>& r, double* out);
    void (*tanh)(const T* x, std::int64_t n, T* out);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<LossKernels>, layer_loss_kernels, ())

// Number of records in a block. The records of a block are clipped side by side, each in a lane of a vector.
inline constexpr std::int64_t kDenseBlock = 64;
// The clip factor F_k of record k is multiplied by this number and rounded to the integer f_k = round(F_k 2^22)
// (exact-products.md, section 5).
inline constexpr double kCenterUnit = 0x1p22;
// Gradients are scaled if each entry has a centre subtracted and is divided by a scale before the norm is computed.
// Then the rows of DenseLayer::center and inverse_scale are padded with zeros to a multiple of this length.
inline constexpr std::int64_t kScaledPad = 16;

// One layer of a batch. The errors of a record are the derivatives of its loss by the layer's outputs. The gradient of
// record k is the outer product of errors[k] and inputs[k], where 1 is appended to inputs[k] if the layer has a bias.
struct DenseLayer {
    const void* inputs;  // array [rows][columns]
    const void* errors;  // array [rows][outputs]
    std::int64_t columns, outputs;
    bool bias;
    const double* rounding_factors;  // for each row, its rounding factor (RowKernels::factors)
    const double* squares;           // for each row, the squared norm of its integers (RowKernels::factors)
    // The next members hold a centre a and a scale b, each as `outputs` rows of `padded` numbers. The pointers are null
    // if gradients are not scaled.
    const double* center;          // the centre in integers, A = round(a / (2^22 grid))
    const double* inverse_scale;   // grid / b, rounded up
    const double* column_squares;  // for each column, the sum over outputs of inverse_scale^2
    std::int64_t padded;
    // True if the weights w_k (DenseClip::weights) stay floats and the products w_k x_k are truncated to integers
    // (exact-products.md, section 7). Here x_k are the inputs of record k, which are not rounded. add_products
    // (product_sum.hpp) needs this for layers with one output, and outer_sum (layers.hpp) never uses it.
    bool formed = false;
};

// The arguments of the clipping kernels, for the records [first, first + count), count <= kDenseBlock. Gradients become
// integers in units of the grid, a power of two. The weights w_k are multiples of the record's errors. The clipped
// gradient is the grid times the outer product of w_k and the rounded inputs q_k.
struct DenseClip {
    const DenseLayer* layers;
    std::int64_t layer_count, first, count;
    double bound;          // the clipping norm C if gradients are scaled, otherwise C / grid
    const double* bounds;  // for each record, its bound C_k / grid. Null if all have `bound` or gradients are scaled
    double inverse_grid;   // 1 / grid, a power of two
    double slack;          // exceeds the relative rounding error of a squared norm that is compared with the bound
    bool normalize;        // true if shorter gradients are stretched to the bound
    const std::uint8_t* taken;  // for each record, whether the record contributes. Null if all records do
    const double* shares;       // for each record, a factor in [0, 1] of its clipped gradient. Null if all are 1
    double* weights;            // output [outputs of all layers][kDenseBlock]: integers w_k, or floats in formed layers
    // Output: the norm of each gradient divided by the grid or, if gradients are scaled, the norm of (gradient -
    // centre) / scale. Rounded up. Null if not wanted.
    double* norms;
    // The next members are used only if gradients are scaled.
    double* factors;     // output: the integers f_k
    double* scratch;     // working memory for one row of each layer, of `padded` numbers
    double center_norm;  // |A kCenterUnit grid / b|, rounded up
};

template <class T>
struct DenseClipKernels {
    void (*clip_plain)(const DenseClip& c);
    void (*clip_scaled)(const DenseClip& c);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<DenseClipKernels>, layer_clip_kernels, ())

// Returns the least multiple of `multiple` that is at least n.
constexpr std::int64_t pad_layer_length(std::int64_t n, std::int64_t multiple) noexcept {
    return (n + multiple - 1) / multiple * multiple;
}

// Computes sums[o * sums_stride + j] += sum_k w[o * kDenseBlock + k] q[k * stride + j] for o < outputs and j < width.
// The sum is over the records k < rows, and `width` is a multiple of kSumTile. Products and sums are integers below
// 2^53. Therefore neither the order of the additions nor fused multiply-adds change the result (exact-products.md,
// section 4).
inline constexpr std::int64_t kSumTile = 8;
TIGHTDP_DECLARE_SIMD(void, accumulate_layer_gradients,
                     (const double* q, std::int64_t stride, std::int64_t rows, const double* w, std::int64_t outputs,
                      std::int64_t width, double* sums, std::int64_t sums_stride))

}  // namespace tightdp
