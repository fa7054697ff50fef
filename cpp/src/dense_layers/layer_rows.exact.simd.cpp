// Computes the scores of rows under a dense layer, and rounds rows to integers. The results of a row do not depend on
// other rows (docs/theory/exact-products.md, sections 1 and 2).
#include <utility>

#include "clipping/row_vectors.hpp"
#include "layers.simd.hpp"
#include "layer_vectors.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// Prefetches the data 16 KB ahead. The processor's own prefetching fails if reads jump between rows or pause between
// blocks. Without this function, a plain pass over rows of 108 floats in memory takes 2.3 times as long. Distances from
// 8 to 32 KB are equally fast.
template <class T>
TIGHTDP_VINLINE void fetch_ahead(const T* x) {
    __builtin_prefetch(reinterpret_cast<const char*>(x) + 16384);
}

// Running sums in kLine<T> lanes: 16 for float, 8 for double. Column j is added to the sum in lane j mod kLine<T>.
template <class T>
struct Line {
    static constexpr int kParts = 64 / kRegisterBytes;
    Register<T> part[kParts];
};

template <class T, int half, int... lanes>
TIGHTDP_VINLINE T folded(Register<T> v, std::integer_sequence<int, lanes...> all) {
    if constexpr (half == 0)
        return v[0];
    else
        return folded<T, half / 2>(v + __builtin_shufflevector(v, v, (lanes ^ half)...), all);
}

// Returns the sum of a line's lanes. The second half of the lanes is added to the first half, and so on down to one
// lane.
template <class T>
TIGHTDP_VINLINE T total(Line<T> line) {
    constexpr int kParts = Line<T>::kParts, width = kRegisterBytes / static_cast<int>(sizeof(T));
    for (int half = kParts / 2; half > 0; half /= 2)
        for (int p = 0; p < half; ++p) line.part[p] += line.part[p + half];
    return folded<T, width / 2>(line.part[0], std::make_integer_sequence<int, width>());
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
TIGHTDP_VINLINE void tile(const Affine<T>& a, std::int64_t k, std::int64_t o) {
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
                fetch_ahead(here);
                entries[r] = load_register(here);
            }
#pragma GCC unroll 8
            for (int i = 0; i < outputs; ++i) {
                const Register<T> weights = load_register(w + (i * lines + c) * kLine<T> + p * width);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) sums[r][i].part[p] += entries[r] * weights;
            }
        }
    }
    for (int r = 0; r < rows; ++r)
        for (int i = 0; i < outputs; ++i)
            a.scores[(k + r) * a.outputs + o + i] = total(sums[r][i]) + (a.bias ? a.bias[o + i] : T(0));
}

template <class T, int rows>
TIGHTDP_VINLINE void outputs_of(const Affine<T>& a, std::int64_t k) {
    std::int64_t o = 0;
    for (; o + kOutputs <= a.outputs; o += kOutputs) tile<T, rows, kOutputs>(a, k, o);
    for (; o < a.outputs; ++o) tile<T, rows, 1>(a, k, o);
}

template <class T>
void affine(const Affine<T>& a) {
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
            for (std::int64_t o = 0; o < a.outputs; ++o) tile<T, kSingleRows, 1>(a, k, o);
    for (; k + kRows <= a.rows; k += kRows) outputs_of<T, kRows>(a, k);
    for (; k < a.rows; ++k) outputs_of<T, 1>(a, k);
}

// Sixteen columns of a row. Columns beyond the end of the row are zeros.
constexpr std::int64_t kColumns = 16;
constexpr int kWides = kColumns / kWidth;
struct Columns {
    Wide wide[kWides];
};

template <class T>
TIGHTDP_VINLINE Columns columns_at(const T* x, std::int64_t left) {
    T padded[kColumns] = {};
    if (left < kColumns) {
        for (std::int64_t j = 0; j < left; ++j) padded[j] = x[j];
        x = padded;
    }
    Columns c;
    for (int i = 0; i < kWides; ++i) c.wide[i] = load_wide(x + i * kWidth);
    return c;
}

// Returns the sum of all lanes. The second half of the lanes is added to the first half, and so on down to one lane.
TIGHTDP_VINLINE double total(const Columns& c) {
    double lanes[kColumns];
    for (int i = 0; i < kWides; ++i) store(lanes + i * kWidth, c.wide[i]);
    for (std::int64_t half = kColumns / 2; half > 0; half /= 2)
        for (std::int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
}

TIGHTDP_VINLINE DoubleVec nearest_of(DoubleVec x, double step) {
    return (x * step + kNearest) - kNearest;
}

// Factor that turns a computed sum of up to 2^32 squares into an upper bound on the true sum.
constexpr double kRoundedUp = 1 + 0x1p-24;

template <class T>
void units(const T* x, std::int64_t rows, std::int64_t columns, bool bias, double least, double* steps,
           double* squares) {
    for (std::int64_t k = 0; k < rows; ++k, x += columns) {
        steps[k] = squares[k] = 0;
        Columns sums = {};
        for (std::int64_t j = 0; j < columns; j += kColumns) {
            const Columns c = columns_at(x + j, columns - j);
            for (int i = 0; i < kWides; ++i) sums.wide[i] = sums.wide[i] + c.wide[i] * c.wide[i];
        }
        const double square = total(sums) + (bias ? 1.0 : 0.0);
        if (!(square <= kLargestSquare)) continue;  // also if the square is NaN
        if (square < kLeastSquare) {                // the row is treated as zeros, and any step serves
            steps[k] = 1;
            continue;
        }
        if (least == 0) {
            steps[k] = 1;
            squares[k] = square * kRoundedUp;
            continue;
        }
        const double step = least / power_below(__builtin_sqrt(square));
        Columns integers = {};
        for (std::int64_t j = 0; j < columns; j += kColumns) {
            const Columns c = columns_at(x + j, columns - j);
            for (int i = 0; i < kWides; ++i) {
                const DoubleVec low = nearest_of(c.wide[i].low, step), high = nearest_of(c.wide[i].high, step);
                integers.wide[i] = integers.wide[i] + Wide{low * low, high * high};
            }
        }
        steps[k] = step;
        squares[k] = total(integers) + (bias ? nearest(step) * nearest(step) : 0.0);
    }
}

template <class T>
void quantize_rows(const QuantizedRows<T>& r) {
    for (std::int64_t k = 0; k < r.rows; ++k) {
        double* const q = r.q + k * r.stride;
        for (std::int64_t j = 0; j < r.columns; j += kLine<T>) fetch_ahead(r.x + k * r.x_stride + j);
        quantize(r.x + k * r.x_stride, r.columns, r.steps[k], q);
        if (r.bias) q[r.columns] = nearest(r.steps[k]);
    }
}

}  // namespace

ForBothTypes<RowKernels> row_kernels() {
    return {{&affine<float>, &units<float>, &quantize_rows<float>},
            {&affine<double>, &units<double>, &quantize_rows<double>}};
}

}  // namespace tightdp::TIGHTDP_ISA
