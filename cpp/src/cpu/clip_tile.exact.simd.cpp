// Norms and weighted sums of a tile of columns. Orders of summation and rounding errors:
// docs/theory/clipping.md.
#include "clip_kernels.hpp"
#include "clip_vec.hpp"

namespace tightdp::TIGHTDP_ISA {

using clipping::BFloat16;
using clipping::Float16;

namespace {

// The last n < size columns, the rest zero.
template <class T, int size>
TIGHTDP_CLIP_INLINE void pad(T (&to)[size], const T* p, long n) {
    for (int i = 0; i < size; ++i) to[i] = i < n ? p[i] : T{};
}

// Rows that are squared exactly in double and added in float32; the others are all double.
template <class T, bool transformed>
inline constexpr bool kSingle = sizeof(T) <= 4 && !transformed;

template <class T, bool transformed>
TIGHTDP_CLIP_INLINE Wide entries(const T* p, [[maybe_unused]] Transform t) {
    if constexpr (transformed)
        return (load_wide(p) - load_wide(t.center)) * load_wide(t.inverse_scale);
    else
        return load_wide(p);
}

template <bool transformed>
TIGHTDP_CLIP_INLINE Transform at(Transform t, long j) {
    if constexpr (transformed) return {t.center + j, t.inverse_scale + j};
    return t;
}

// Columns in turn belong to one of 64 sums, whatever the width of the registers.
constexpr int kSums = 64;
constexpr int kVecs = kSums / kWidth;

template <class T, bool transformed>
TIGHTDP_CLIP_INLINE void add_squares(Wide (&sums)[kVecs], const T* p, long ahead, Transform t) {
    for (int v = 0; v < kVecs; ++v) {
        const T* const q = p + v * kWidth;
        if (v * kWidth * sizeof(T) % 64 == 0)
            __builtin_prefetch(reinterpret_cast<const char*>(q) + ahead, 0, 2);
        const Wide x = entries<T, transformed>(q, at<transformed>(t, v * kWidth));
        if constexpr (kSingle<T, transformed>)
            sums[v] = {add_exact_square(sums[v].low, x.low), add_exact_square(sums[v].high, x.high)};
        else
            sums[v] = sums[v] + x * x;
    }
}

template <class T, bool transformed>
double squares(const void* row, long n, long ahead, Transform t) {
    const T* const p = static_cast<const T*>(row);
    // The last columns that are no full 64, padded with zeros, are read like the others.
    T tail[kSums];
    double center[transformed ? kSums : 1], inverse[transformed ? kSums : 1];
    if (const long full = n / kSums * kSums; full < n) {
        pad(tail, p + full, n - full);
        if constexpr (transformed) {
            pad(center, t.center + full, n - full);
            pad(inverse, t.inverse_scale + full, n - full);
        }
    }
    Wide sums[kVecs];
    for (auto& s : sums) s = {DoubleVec{}, DoubleVec{}};
    long j = 0;
    do {
        const bool whole = n - j >= kSums;
        add_squares<T, transformed>(sums, whole ? p + j : tail, ahead,
                                    whole ? at<transformed>(t, j) : Transform{center, inverse});
        j += kSums;
    } while (j < n);
    // Halves are added to halves: the same tree for every width of register.
    for (int half = kVecs / 2; half > 0; half /= 2)
        for (int v = 0; v < half; ++v) sums[v] = sums[v] + sums[v + half];
    double s[kWidth / 2];
    *reinterpret_cast<DoublesAt*>(s) = sums[0].low + sums[0].high;
    for (int half = kWidth / 4; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) s[i] += s[i + half];
    return s[0];
}

// sum_r factors[r] * row_r over kWidth columns.
template <class T, bool transformed>
TIGHTDP_CLIP_INLINE Wide group_sum(const T* const (&rows)[kGroup], const double (&factors)[kGroup], long j,
                                   Transform t) {
    if constexpr (kSingle<T, transformed>) {
        FloatVec total = load(rows[0] + j) * static_cast<float>(factors[0]);
        for (int r = 1; r < kGroup; ++r) total += load(rows[r] + j) * static_cast<float>(factors[r]);
        return widen(total);
    } else {
        Wide total = entries<T, transformed>(rows[0] + j, t) * factors[0];
        for (int r = 1; r < kGroup; ++r) total = total + entries<T, transformed>(rows[r] + j, t) * factors[r];
        return total;
    }
}

template <class T, bool transformed, bool fresh, bool prefetch>
TIGHTDP_CLIP_INLINE void add_rows_loop(double* sums, const T* const (&rows)[kGroup],
                                       const double (&factors)[kGroup], long n,
                                       const T* const (&next)[kGroup], Transform t) {
    constexpr int kLine = 64 / sizeof(T);
    constexpr int kStep = 2 * kLine;
    long j = 0;
    for (; j + kStep <= n; j += kStep) {
        for (int i = 0; i < kStep; i += kWidth) {
            const Wide added = group_sum<T, transformed>(rows, factors, j + i, at<transformed>(t, j + i));
            if constexpr (fresh)
                store(sums + j + i, added);
            else
                store(sums + j + i, load_wide(sums + j + i) + added);
        }
        if constexpr (prefetch)
            for (int r = 0; r < kGroup; ++r) __builtin_prefetch(next[r] + j, 0, 2);
    }
    for (; j < n; j += kWidth) {
        const long left = n - j < kWidth ? n - j : kWidth;
        T last[kGroup][kWidth];
        for (int r = 0; r < kGroup; ++r) pad(last[r], rows[r] + j, left);
        const T* const padded[kGroup] = {last[0], last[1], last[2], last[3]};
        double total[kWidth], center[transformed ? kWidth : 1], inverse[transformed ? kWidth : 1];
        if constexpr (transformed) {
            pad(center, t.center + j, left);
            pad(inverse, t.inverse_scale + j, left);
        }
        store(total, group_sum<T, transformed>(padded, factors, 0, {center, inverse}));
        for (long i = 0; i < left; ++i) sums[j + i] = fresh ? total[i] : sums[j + i] + total[i];
    }
}

template <class T, bool transformed>
void add_rows(double* sums, const void* const rows[kGroup], const double factors[kGroup], long n, bool fresh,
              const void* const next[kGroup], Transform t) {
    const T* p[kGroup];
    const T* q[kGroup];
    double f[kGroup];
    for (int r = 0; r < kGroup; ++r) {
        p[r] = static_cast<const T*>(rows[r]);
        q[r] = next ? static_cast<const T*>(next[r]) : nullptr;
        f[r] = factors[r];
    }
    if (fresh)
        next ? add_rows_loop<T, transformed, true, true>(sums, p, f, n, q, t)
             : add_rows_loop<T, transformed, true, false>(sums, p, f, n, q, t);
    else
        next ? add_rows_loop<T, transformed, false, true>(sums, p, f, n, q, t)
             : add_rows_loop<T, transformed, false, false>(sums, p, f, n, q, t);
}

template <class T>
ClipKernels kernels(bool transformed) {
    if (transformed) return {&squares<T, true>, &add_rows<T, true>};
    return {&squares<T, false>, &add_rows<T, false>};
}

template <class Real>
void finish(Real* __restrict out, const double* __restrict sums, const Real* __restrict noise,
            double deviation, long n, bool add) {
    for (long j = 0; j < n; ++j) {
        double value = sums[j];
        if (noise) value += deviation * static_cast<double>(noise[j]);
        out[j] = static_cast<Real>(add ? static_cast<double>(out[j]) + value : value);
    }
}

}  // namespace

ClipKernels clip_kernels(Dtype dtype, bool transformed) {
    switch (dtype) {
        case Dtype::float16:
            return kernels<Float16>(transformed);
        case Dtype::bfloat16:
            return kernels<BFloat16>(transformed);
        case Dtype::float32:
            return kernels<float>(transformed);
        default:
            return kernels<double>(transformed);
    }
}

FinishKernels finish_kernels() {
    return {&finish<float>, &finish<double>};
}

}  // namespace tightdp::TIGHTDP_ISA
