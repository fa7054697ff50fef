// Dense layers over threads: scores, losses and the exact integer sum of clipped outer products.
// docs/theory/exact-products.md.
#pragma once

#include <cstdint>
#include <vector>

#include "layers.simd.hpp"

namespace tightdp {

// scores = inputs weights^T + bias, weights outputs x columns as they come. Row k is the same whatever the
// other rows are.
template <class T>
void affine(const T* inputs, std::int64_t rows, std::int64_t columns, const T* weights, std::int64_t outputs,
            const T* bias, T* scores);

// Steps and squared norms of rows whose integers have |q_k| in [2^(digits - 1), 2^digits); 0 digits: of rows as they
// are.
template <class T>
void row_units(const T* x, std::int64_t rows, std::int64_t columns, bool bias, int digits, double* steps,
               double* squares);

template <class T>
void loss_residual(const LossRequest<T>& request, T* out);
template <class T>
void loss_value(const LossRequest<T>& request, double* out);
template <class T>
void tanh_of(const T* x, std::int64_t n, T* out);

struct OuterSum {
    std::vector<DenseLayer> layers;  // of one element type; with a scale in all or none
    std::int64_t rows;
    double bound, inverse_grid, center_norm;
    bool normalize;
    const std::uint8_t* taken;  // null: all
    const double* shares;       // multiply the clipped gradients, in [0, 1]; null: all 1
    double* norms;              // |g_k|, rounded up; null: not wanted
    // sum_k m_k modulo 2^64, layer after layer, (columns + bias) an output; null: norms alone are wanted.
    std::int64_t* out;
};

// m_k = w_k (x) q_k - f_k A with integers, |m_k| <= bound, or |m_k grid / b| <= bound under a scale, whatever the
// shares are.
// Precondition: every |w q| and |m| is at most 2^39.
template <class T>
void outer_sum(const OuterSum& request);

}  // namespace tightdp
