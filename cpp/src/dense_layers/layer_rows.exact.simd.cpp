// Computes the scores of rows under a dense layer, and rounds rows to integers. The results of a row do not depend on
// other rows (docs/theory/exact-products.md, sections 1 and 2).
#include <utility>

#include "clipping/row_vectors.hpp"
#include "layer_vectors.hpp"
#include "layers.simd.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// Prefetches the data 16 KB ahead. The processor's own prefetching fails if reads jump between rows or pause between
// blocks. Without this function, a plain pass over rows of 108 floats in memory takes 2.3 times as long. Distances from
// 8 to 32 KB are equally fast.
template <class T>
TIGHTDP_VINLINE void prefetch_layer_row(const T* x) {
    __builtin_prefetch(reinterpret_cast<const char*>(x) + 16384);
}

// Running sums in kLine<T> lanes: 16 for float, 8 for double. A line of inputs is kLine<T> consecutive columns, one for
// each lane. Line c begins at column c kLine<T>. If fewer than kLine<T> columns are left, the last line consists of the
// last kLine<T> columns. It then overlaps with the line before, and has weights of 0 for the columns that both lines
// contain (Affine in layers.simd.hpp).
template <class T>
struct Line {
    static constexpr int kParts = 64 / kRegisterBytes;
    Register<T> part[kParts];
};

template <class T, int half, int... lanes>
TIGHTDP_VINLINE T fold_layer_register(Register<T> v, std::integer_sequence<int, lanes...> all) {
    if constexpr (half == 0)
        return v[0];
    else
        return fold_layer_register<T, half / 2>(v + __builtin_shufflevector(v, v, (lanes ^ half)...), all);
}

// Returns the sum of a line's lanes. The second half of the lanes is added to the first half, and so on down to one
// lane.
template <class T>
TIGHTDP_VINLINE T total_layer_lanes(Line<T> line) {
    constexpr int kParts = Line<T>::kParts, width = kRegisterBytes / static_cast<int>(sizeof(T));
    for (int half = kParts / 2; half > 0; half /= 2)
        for (int p = 0; p < half; ++p) line.part[p] += line.part[p + half];
    return fold_layer_register<T, width / 2>(line.part[0], std::make_integer_sequence<int, width>());
}

// Numbers of rows and outputs that are computed side by side, such that their sums fit in the registers.
#if defined(TIGHTDP_ISA_avx512)
constexpr int kRows = 4, kOutputs = 4, kSingleRows = 8;
#elif defined(TIGHTDP_ISA_avx2)
constexpr int kRows = 2, kOutputs = 2, kSingleRows = 4;
#else
constexpr int kRows = 1, kOutputs = 2, kSingleRows = 2;
#endif

template <class T, int rows, int outputs>
TIGHTDP_VINLINE void score_layer_tile(const Affine<T>& a, std::int64_t k, std::int64_t o) {
    constexpr int parts = Line<T>::kParts, width = kRegisterBytes / static_cast<int>(sizeof(T));
    const std::int64_t lines = (a.columns + kLine<T> - 1) / kLine<T>;
    const T* const x = a.inputs + k * a.columns;
    const T* const w = a.weights + o * lines * kLine<T>;
    Line<T> sums[rows][outputs] = {};
    for (std::int64_t c = 0; c < lines; ++c) {
        const std::int64_t at = c * kLine<T> + kLine<T> <= a.columns ? c * kLine<T> : a.columns - kLine<T>;
#pragma GCC unroll 8
        for (int p = 0; p < parts; ++p) {
            Register<T> entries[rows];
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                const T* const here = x + r * a.columns + at + p * width;
                prefetch_layer_row(here);
                entries[r] = load_layer_register(here);
            }
#pragma GCC unroll 8
            for (int i = 0; i < outputs; ++i) {
                const Register<T> weights = load_layer_register(w + (i * lines + c) * kLine<T> + p * width);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) sums[r][i].part[p] += entries[r] * weights;
            }
        }
    }
    for (int r = 0; r < rows; ++r)
        for (int i = 0; i < outputs; ++i)
            a.scores[(k + r) * a.outputs + o + i] = total_layer_lanes(sums[r][i]) + (a.bias ? a.bias[o + i] : T(0));
}

template <class T, int rows>
TIGHTDP_VINLINE void score_layer_outputs(const Affine<T>& a, std::int64_t k) {
    std::int64_t o = 0;
    for (; o + kOutputs <= a.outputs; o += kOutputs) score_layer_tile<T, rows, kOutputs>(a, k, o);
    for (; o < a.outputs; ++o) score_layer_tile<T, rows, 1>(a, k, o);
}

template <class T>
void score_layer_rows(const Affine<T>& a) {
    std::int64_t k = 0;
    if (a.columns < kLine<T>) {
        for (; k < a.rows; ++k)
            for (std::int64_t o = 0; o < a.outputs; ++o) {
                T sum = 0;
                for (std::int64_t j = 0; j < a.columns; ++j)
                    sum += a.inputs[k * a.columns + j] * a.weights[o * a.columns + j];
                a.scores[k * a.outputs + o] = sum + (a.bias ? a.bias[o] : T(0));
            }
        return;
    }
    if (a.outputs < kOutputs)
        for (; k + kSingleRows <= a.rows; k += kSingleRows)
            for (std::int64_t o = 0; o < a.outputs; ++o) score_layer_tile<T, kSingleRows, 1>(a, k, o);
    for (; k + kRows <= a.rows; k += kRows) score_layer_outputs<T, kRows>(a, k);
    for (; k < a.rows; ++k) score_layer_outputs<T, 1>(a, k);
}

// Sixteen columns of a row. Columns beyond the end of the row are zeros.
constexpr std::int64_t kColumns = 16;
constexpr int kWides = kColumns / kWidth;
struct Columns {
    Wide wide[kWides];
};

template <class T>
TIGHTDP_VINLINE Columns load_layer_columns(const T* x, std::int64_t left) {
    T padded[kColumns] = {};
    if (left < kColumns) {
        for (std::int64_t j = 0; j < left; ++j) padded[j] = x[j];
        x = padded;
    }
    Columns c;
    for (int i = 0; i < kWides; ++i) c.wide[i] = load_wide_row_vector(x + i * kWidth);
    return c;
}

// Returns the sum of all lanes. The second half of the lanes is added to the first half, and so on down to one lane.
TIGHTDP_VINLINE double total_layer_lanes(const Columns& c) {
    double lanes[kColumns];
    for (int i = 0; i < kWides; ++i) store_row_vector(lanes + i * kWidth, c.wide[i]);
    for (std::int64_t half = kColumns / 2; half > 0; half /= 2)
        for (std::int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
}

TIGHTDP_VINLINE DoubleVec round_layer_vector(DoubleVec x, double rounding_factor) {
    return (x * rounding_factor + kNearest) - kNearest;
}

// Factor that turns a computed sum of up to 2^32 squares into an upper bound on the true sum.
constexpr double kRoundedUp = 1 + 0x1p-24;

// Computes the rounding factor of each row, and the sum of the squares of the row's integers (RowKernels::factors in
// layers.simd.hpp).
template <class T>
void compute_layer_rounding_factors(const T* x, std::int64_t rows, std::int64_t columns, bool bias, double least,
                                    double* rounding_factors, double* squares) {
    for (std::int64_t k = 0; k < rows; ++k, x += columns) {
        rounding_factors[k] = 0;
        if (squares) squares[k] = 0;
        Columns sums = {};
        for (std::int64_t j = 0; j < columns; j += kColumns) {
            const Columns c = load_layer_columns(x + j, columns - j);
            for (int i = 0; i < kWides; ++i) sums.wide[i] = sums.wide[i] + c.wide[i] * c.wide[i];
        }
        const double square = total_layer_lanes(sums) + (bias ? 1.0 : 0.0);
        if (!(square <= kLargestSquare)) continue;  // also if the square is NaN
        if (square < kLeastSquare) {                // the row is treated as zeros, and any rounding factor serves
            rounding_factors[k] = 1;
            continue;
        }
        if (least == 0) {
            rounding_factors[k] = 1;
            if (squares) squares[k] = square * kRoundedUp;
            continue;
        }
        const double rounding_factor = least / layer_power_below(__builtin_sqrt(square));
        rounding_factors[k] = rounding_factor;
        if (!squares) continue;
        Columns integers = {};
        for (std::int64_t j = 0; j < columns; j += kColumns) {
            const Columns c = load_layer_columns(x + j, columns - j);
            for (int i = 0; i < kWides; ++i) {
                const DoubleVec low = round_layer_vector(c.wide[i].low, rounding_factor),
                                high = round_layer_vector(c.wide[i].high, rounding_factor);
                integers.wide[i] = integers.wide[i] + Wide{low * low, high * high};
            }
        }
        squares[k] = total_layer_lanes(integers) +
                     (bias ? round_layer_number(rounding_factor) * round_layer_number(rounding_factor) : 0.0);
    }
}

template <class T>
void round_layer_rows(const QuantizedRows<T>& r) {
    for (std::int64_t k = 0; k < r.rows; ++k) {
        double* const q = r.q + k * r.stride;
        for (std::int64_t j = 0; j < r.columns; j += kLine<T>) prefetch_layer_row(r.x + k * r.x_stride + j);
        round_layer_row(r.x + k * r.x_stride, r.columns, r.rounding_factors[k], q);
        if (r.bias) q[r.columns] = round_layer_number(r.rounding_factors[k]);
    }
}

}  // namespace

ForBothTypes<RowKernels> layer_row_kernels() {
    return {{&score_layer_rows<float>, &compute_layer_rounding_factors<float>, &round_layer_rows<float>},
            {&score_layer_rows<double>, &compute_layer_rounding_factors<double>, &round_layer_rows<double>}};
}

}  // namespace tightdp::TIGHTDP_ISA
