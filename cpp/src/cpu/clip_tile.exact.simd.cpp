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

// Rows that are squared exactly in double and added in float32, four at a time; the others are all double.
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

// Into the first-level cache, where the next tile of four rows takes 8 KB.
template <class T>
TIGHTDP_CLIP_INLINE void prefetch(const T* p) {
    __builtin_prefetch(p, 0, 3);
}

// Sixteen columns, and the sixteen running sums that they belong to whatever the width of the registers.
constexpr int kColumns = 16;
constexpr int kVecs = kColumns / kWidth;
// The running sums of squares of one row.
template <class T, bool transformed>
struct Squares {
    Wide sums[kVecs];

    TIGHTDP_CLIP_INLINE void clear(Squares& s) {
        for (auto& v : s.sums) v = {DoubleVec{}, DoubleVec{}};
    }

    TIGHTDP_CLIP_INLINE void take(Squares& s, const T* p, Transform t) {
        for (int v = 0; v < kVecs; ++v) {
            const Wide x = entries<T, transformed>(p + v * kWidth, at<transformed>(t, v * kWidth));
            if constexpr (kSingle<T, transformed>)
                s.sums[v] = {add_exact_square(s.sums[v].low, x.low),
                             add_exact_square(s.sums[v].high, x.high)};
            else
                s.sums[v] = s.sums[v] + x * x;
        }
    }

    // Halves are added to halves.
    TIGHTDP_CLIP_INLINE double total(Squares& s) {
        for (int half = kVecs / 2; half > 0; half /= 2)
            for (int v = 0; v < half; ++v) s.sums[v] = s.sums[v] + s.sums[v + half];
        double last[kWidth / 2];
        *reinterpret_cast<DoublesAt*>(last) = s.sums[0].low + s.sums[0].high;
        for (int half = kWidth / 4; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) last[i] += last[i + half];
        return last[0];
    }
};

// The last columns of a row, n < 16, padded with zeros and read like the others.
template <class T, bool transformed>
struct Tail {
    T row[kColumns];
    double center[transformed ? kColumns : 1], inverse[transformed ? kColumns : 1];

    TIGHTDP_CLIP_INLINE void fill(Tail& to, const T* p, long n, Transform t) {
        pad(to.row, p, n);
        if constexpr (transformed) {
            pad(to.center, t.center, n);
            pad(to.inverse, t.inverse_scale, n);
        }
    }
    Transform transform() const { return {center, inverse}; }
};

// Bytes ahead of a row that is read from end to end. Between 4 KB and 16 KB there is no difference to
// measure.
constexpr long kAhead = 8192;

template <class T, bool transformed>
double squares(const void* row, long n, Transform t) {
    using Sums = Squares<T, transformed>;
    const T* const p = static_cast<const T*>(row);
    Sums sums;
    Sums::clear(sums);
    long j = 0;
    for (; j + kColumns <= n; j += kColumns) {
        prefetch(reinterpret_cast<const char*>(p + j) + kAhead);
        Sums::take(sums, p + j, at<transformed>(t, j));
    }
    if (j < n) {
        Tail<T, transformed> tail;
        Tail<T, transformed>::fill(tail, p + j, n - j, at<transformed>(t, j));
        Sums::take(sums, tail.row, tail.transform());
    }
    return Sums::total(sums);
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

template <class T, bool transformed, bool fresh>
TIGHTDP_CLIP_INLINE void add_columns(double* sums, const T* const (&rows)[kGroup],
                                     const double (&factors)[kGroup], long j, Transform t) {
    for (int i = 0; i < kColumns; i += kWidth) {
        const Wide added = group_sum<T, transformed>(rows, factors, j + i, at<transformed>(t, i));
        if constexpr (fresh)
            store(sums + i, added);
        else
            store(sums + i, load_wide(sums + i) + added);
    }
}

template <class T, bool transformed, bool fresh, bool square_next>
TIGHTDP_CLIP_INLINE void add_loop(double* sums, const T* const (&rows)[kGroup],
                                  const double (&factors)[kGroup], long n, const T* const (&next)[kGroup],
                                  double* norms, const T* const (&soon)[kGroup], Transform t) {
    using Sums = Squares<T, transformed>;
    Sums squares[kGroup];
    if constexpr (square_next)
        for (auto& s : squares) Sums::clear(s);
    long j = 0;
    for (; j + kColumns <= n; j += kColumns) {
        for (int r = 0; r < kGroup; ++r) prefetch(soon[r] + j);
        add_columns<T, transformed, fresh>(sums + j, rows, factors, j, at<transformed>(t, j));
        if constexpr (square_next)
            for (int r = 0; r < kGroup; ++r) Sums::take(squares[r], next[r] + j, at<transformed>(t, j));
    }
    if (j < n) {
        Tail<T, transformed> tails[kGroup];
        for (int r = 0; r < kGroup; ++r)
            Tail<T, transformed>::fill(tails[r], rows[r] + j, n - j, at<transformed>(t, j));
        const T* const padded[kGroup] = {tails[0].row, tails[1].row, tails[2].row, tails[3].row};
        double last[kColumns];
        add_columns<T, transformed, true>(last, padded, factors, 0, tails[0].transform());
        for (long i = 0; j + i < n; ++i) sums[j + i] = fresh ? last[i] : sums[j + i] + last[i];
        if constexpr (square_next)
            for (int r = 0; r < kGroup; ++r) {
                Tail<T, transformed>::fill(tails[r], next[r] + j, n - j, at<transformed>(t, j));
                Sums::take(squares[r], tails[r].row, tails[r].transform());
            }
    }
    if constexpr (square_next)
        for (int r = 0; r < kGroup; ++r) norms[r] += Sums::total(squares[r]);
}

template <class T, bool transformed>
void add(double* sums, const void* const rows[kGroup], const double factors[kGroup], long n, bool fresh,
         const void* const next[kGroup], double norms[kGroup], const void* const soon[kGroup], Transform t) {
    const T *p[kGroup], *q[kGroup], *s[kGroup];
    double f[kGroup];
    for (int r = 0; r < kGroup; ++r) {
        p[r] = static_cast<const T*>(rows[r]);
        q[r] = next ? static_cast<const T*>(next[r]) : nullptr;
        s[r] = static_cast<const T*>(soon[r]);
        f[r] = factors[r];
    }
    if (fresh)
        next ? add_loop<T, transformed, true, true>(sums, p, f, n, q, norms, s, t)
             : add_loop<T, transformed, true, false>(sums, p, f, n, q, norms, s, t);
    else
        next ? add_loop<T, transformed, false, true>(sums, p, f, n, q, norms, s, t)
             : add_loop<T, transformed, false, false>(sums, p, f, n, q, norms, s, t);
}

template <class T>
ClipKernels kernels(bool transformed) {
    if (transformed) return {&squares<T, true>, &add<T, true>};
    return {&squares<T, false>, &add<T, false>};
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
