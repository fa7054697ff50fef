// The loops of dense layers and of the losses on top, one copy an instruction set, all with the same bits. What is
// computed of one record is a function of that record alone: docs/theory/exact-products.md.
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

// Columns of one line of the affine map: 64 bytes, whatever the width of the registers.
template <class T>
inline constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));

// scores[k][o] = (sum_j inputs[k][j] weights[o][j]) + bias[o], in T, in the order of section 1. Where columns
// >= kLine<T>, an output's weights are ceil(columns / kLine<T>) lines: the last holds those of the last
// kLine<T> columns, 0 for the columns that the line before has; else they are `columns` numbers. bias may be
// null.
template <class T>
struct Affine {
    const T* inputs;
    std::int64_t rows, columns, outputs;
    const T* weights;
    const T* bias;
    T* scores;
};

// q[k * stride + j] = round(x[k * x_stride + j] steps[k]) for j < columns, and after them round(steps[k]) with a bias.
template <class T>
struct QuantizedRows {
    const T* x;
    std::int64_t x_stride, rows, columns;
    bool bias;
    const double* steps;
    double* q;
    std::int64_t stride;
};

template <class T>
struct RowKernels {
    void (*affine)(const Affine<T>& a);
    // Section 2: steps[k] = 2^e_k and squares[k] = |q_k|^2; a step of 0 means that the record contributes nothing.
    // |q_k| lies in about [least, 2 least), a power of two. Where `least` is 0 a row is left as it is: steps are 1 or
    // 0, squares at least |x_k|^2.
    void (*units)(const T* x, std::int64_t rows, std::int64_t columns, bool bias, double least, double* steps,
                  double* squares);
    void (*quantize)(const QuantizedRows<T>& r);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<RowKernels>, row_kernels, ())

enum class LossKind : int { logistic, multinomial, hinge };

// Scores z, rows x outputs, and a class each. `width` is the Huberised hinge's h.
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
    // The derivative of the loss by z; NaN in the whole row where a score is not finite.
    void (*residual)(const LossRequest<T>& r, T* out);
    // The loss; NaN where a score is not finite.
    void (*value)(const LossRequest<T>& r, double* out);
    void (*tanh)(const T* x, std::int64_t n, T* out);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<LossKernels>, loss_kernels, ())

// Records that are clipped side by side, one a lane.
inline constexpr std::int64_t kDenseBlock = 64;
// f_k = round(F_k 2^22) multiplies a centre.
inline constexpr double kCenterUnit = 0x1p22;
// Rows of doubles under a centre and a scale are zero up to a multiple of this.
inline constexpr std::int64_t kScaledPad = 16;

// One layer of a batch: record k's gradient is the outer product of errors[k] and (inputs[k], 1).
struct DenseLayer {
    const void* inputs;  // rows x columns
    const void* errors;  // rows x outputs
    std::int64_t columns, outputs;
    bool bias;
    const double* steps;
    const double* squares;
    // Centre and scale: `outputs` rows of `padded` numbers, or null if gradients are neither centred nor scaled.
    const double* center;          // A, integers
    const double* inverse_scale;   // grid / b, rounded up
    const double* column_squares;  // one row: sum over outputs of inverse_scale^2
    std::int64_t padded;
    // True if the weights stay floats and the products are truncated (section 7), as for layers with one output.
    bool formed = false;
};

// The records [first, first + count), count <= kDenseBlock.
struct DenseClip {
    const DenseLayer* layers;
    std::int64_t layer_count, first, count;
    double bound;               // C / grid; under a scale C
    double inverse_grid;        // a power of two
    double slack;               // of the square of a norm: more than the roundings of the comparison with the bound
    bool normalize;             // bring short records to the bound as well
    const std::uint8_t* taken;  // which records contribute; null: all
    const double* shares;       // weight of a record over the largest one, in [0, 1]; null: all 1
    double* weights;            // integers w_k, or of a formed layer numbers, [outputs of all layers][kDenseBlock]
    double* norms;              // |g_k| / grid, rounded up; null where nobody asks
    // The next members are used only if gradients are scaled.
    double* factors;     // integers f_k
    double* scratch;     // the padded widths of all layers
    double center_norm;  // |A kCenterUnit grid / b|, rounded up
};

template <class T>
struct DenseClipKernels {
    void (*plain)(const DenseClip& c);
    void (*scaled)(const DenseClip& c);
};

TIGHTDP_DECLARE_SIMD(ForBothTypes<DenseClipKernels>, dense_clip_kernels, ())

// sums[o * sums_stride + j] += sum_k w[o * kDenseBlock + k] q[k * stride + j] for j < width, a multiple of kSumTile.
// Products and sums are integers below 2^53: neither order nor contraction matters (section 4).
inline constexpr std::int64_t kSumTile = 8;
TIGHTDP_DECLARE_SIMD(void, dense_accumulate,
                     (const double* q, std::int64_t stride, std::int64_t rows, const double* w, std::int64_t outputs,
                      std::int64_t width, double* sums, std::int64_t sums_stride))

}  // namespace tightdp
