// Computes dense layers on several threads: the scores, the losses, and the exact integer sum of clipped gradients,
// which are outer products (docs/theory/exact-products.md).
#pragma once

#include <cstdint>
#include <vector>

#include "layers.simd.hpp"

namespace tightdp {

// Computes scores = inputs weights^T + bias, where `weights` is an unpacked array [outputs][columns]. Row k of the
// scores does not depend on the other rows of the inputs.
template <class T>
void affine(const T* inputs, std::int64_t rows, std::int64_t columns, const T* weights, std::int64_t outputs,
            const T* bias, T* scores);

// Computes for each row x_k the rounding factor by which the row is multiplied before it is rounded to integers q_k
// (exact-products.md, section 2), and the square |q_k|^2. The rounding factor is chosen such that |q_k| lies in about
// [2^(digits - 1), 2^digits). If digits = 0, rows are not rounded. The rounding factor is then 1, and the square is
// |x_k|^2, rounded up. The rounding factor of a row that must not contribute is 0 in either case.
template <class T>
void row_units(const T* x, std::int64_t rows, std::int64_t columns, bool bias, int digits, double* rounding_factors,
               double* squares);

// Runs the kernels of LossKernels on several threads. These kernels compute the derivative of the loss by the scores,
// the value of the loss, and tanh.
template <class T>
void loss_residual(const LossRequest<T>& request, T* out);
template <class T>
void loss_value(const LossRequest<T>& request, double* out);
template <class T>
void tanh_of(const T* x, std::int64_t n, T* out);

// The arguments of outer_sum. `bound`, `inverse_grid`, `center_norm` and `normalize` are described at DenseClip.
struct OuterSum {
    std::vector<DenseLayer> layers;  // of one element type. Either all have a scale (DenseLayer), or none has
    std::int64_t rows;
    double bound, inverse_grid, center_norm;
    bool normalize;
    const std::uint8_t* taken;  // for each record, whether the record contributes. Null if all records do
    const double* shares;       // for each record, a factor in [0, 1] of its clipped gradient. Null if all are 1
    double* norms;              // for each record, the norm of its gradient, rounded up. Null if not wanted
    // The sums, layer after layer, with (columns + bias) numbers for each output. Null if only the norms are wanted.
    std::int64_t* out;
};

// Computes sum_k m_k modulo 2^64. Record k contributes the integers m_k = w_k (x) q_k - f_k A, where (x) is the outer
// product (exact-products.md, sections 3 and 5). Here w_k are the record's rounded clipped errors, and q_k its rounded
// inputs. A is the layer's centre, and f_k the record's integer factor. |m_k| <= bound if there is no scale, and |m_k
// grid / b| <= bound for a scale b, where grid = 1 / inverse_grid, whatever the shares are. Precondition: every |w q|
// and |m| is at most 2^39.
template <class T>
void outer_sum(const OuterSum& request);

}  // namespace tightdp
