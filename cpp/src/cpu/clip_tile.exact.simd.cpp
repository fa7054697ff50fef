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

// The total of squares over n columns, those from j on, less than kColumns, not yet taken.
template <class T, bool transformed>
TIGHTDP_CLIP_INLINE double total_with_tail(Squares<T, transformed>& sums, const T* p, long j, long n, Transform t) {
    if (j < n) {
        Tail<T, transformed> tail;
        Tail<T, transformed>::fill(tail, p + j, n - j, at<transformed>(t, j));
        Squares<T, transformed>::take(sums, tail.row, tail.transform());
    }
    return Squares<T, transformed>::total(sums);
}

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
    return total_with_tail<T, transformed>(sums, p, j, n, t);
}

// sum_r factors[r] * row_r over kWidth columns of one group.
template <class T, bool transformed>
TIGHTDP_CLIP_INLINE Wide group_sum(const T* const* rows, const double* factors, long j, Transform t) {
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

// kColumns columns from j on; t is the transform there.
template <class T, bool transformed, int groups, bool fresh>
TIGHTDP_CLIP_INLINE void add_columns(double* sums, const T* const* rows, const double* factors, long j,
                                     Transform t) {
    for (int i = 0; i < kColumns; i += kWidth) {
        Wide total = group_sum<T, transformed>(rows, factors, j + i, at<transformed>(t, i));
        if constexpr (!fresh) total = load_wide(sums + i) + total;
        for (int g = 1; g < groups; ++g)
            total = total + group_sum<T, transformed>(rows + g * kGroup, factors + g * kGroup, j + i,
                                                      at<transformed>(t, i));
        store(sums + i, total);
    }
}

// Bytes ahead in rows that are added without squaring others: they may come from memory.
constexpr long kAheadOfSum = 1024;

// Inlined, so that rows and factors are the caller's own and stay in registers whatever `sums` points to.
template <class T, bool transformed, int groups, bool fresh, bool square_next>
TIGHTDP_CLIP_INLINE double add_loop(double* sums, const T* const* rows, const double* factors, long j,
                                    long end, const Piece* next, Transform t) {
    using Sums = Squares<T, transformed>;
    constexpr int count = groups * kGroup;
    constexpr long line = 64 / sizeof(T) < kColumns ? 64 / sizeof(T) : kColumns;
    Sums squares;
    const T *p = nullptr, *soon = nullptr;
    long i = 0, n = 0;
    Transform u{};
    if constexpr (square_next) {
        Sums::clear(squares);
        p = static_cast<const T*>(next->entries);
        soon = static_cast<const T*>(next->soon);
        n = next->n;
        u = next->transform;
    }
    for (; j + kColumns <= end && (!square_next || i + count * kColumns <= n); j += kColumns) {
        if constexpr (!square_next)
            for (int r = 0; r < count; ++r)
                prefetch(reinterpret_cast<const char*>(rows[r] + j) + kAheadOfSum);
        add_columns<T, transformed, groups, fresh>(sums + j, rows, factors, j, at<transformed>(t, j));
        if constexpr (square_next)
            for (int k = 0; k < count; ++k, i += kColumns) {
                for (long c = 0; c < kColumns; c += line) prefetch(soon + i + c);
                asm volatile("" ::: "memory");  // keeps each prefetch by its load: in one burst they wait
                Sums::take(squares, p + i, at<transformed>(u, i));
            }
    }
    for (; j + kColumns <= end; j += kColumns)
        add_columns<T, transformed, groups, fresh>(sums + j, rows, factors, j, at<transformed>(t, j));
    if (j < end) {
        Tail<T, transformed> tails[count];
        const T* padded[count];
        for (int r = 0; r < count; ++r) {
            Tail<T, transformed>::fill(tails[r], rows[r] + j, end - j, at<transformed>(t, j));
            padded[r] = tails[r].row;
        }
        double last[kColumns];
        pad(last, sums + j, fresh ? 0 : end - j);
        add_columns<T, transformed, groups, fresh>(last, padded, factors, 0, tails[0].transform());
        for (long k = 0; j + k < end; ++k) sums[j + k] = last[k];
    }
    if constexpr (!square_next) return 0;
    for (; i + kColumns <= n; i += kColumns) {
        for (long c = 0; c < kColumns; c += line) prefetch(soon + i + c);
        Sums::take(squares, p + i, at<transformed>(u, i));
    }
    return total_with_tail<T, transformed>(squares, p, i, n, u);
}

template <class T, bool transformed, int groups>
double add_groups(double* sums, const void* const* rows, const double* factors, long begin, long end,
                  bool fresh, const Piece* next, Transform t) {
    const T* p[groups * kGroup];
    double f[groups * kGroup];
    for (int r = 0; r < groups * kGroup; ++r) {
        p[r] = static_cast<const T*>(rows[r]);
        f[r] = factors[r];
    }
    if (fresh)
        return next ? add_loop<T, transformed, groups, true, true>(sums, p, f, begin, end, next, t)
                    : add_loop<T, transformed, groups, true, false>(sums, p, f, begin, end, next, t);
    return next ? add_loop<T, transformed, groups, false, true>(sums, p, f, begin, end, next, t)
                : add_loop<T, transformed, groups, false, false>(sums, p, f, begin, end, next, t);
}

template <class T, bool transformed>
double add(double* sums, const void* const* rows, const double* factors, int groups, long begin, long end,
           bool fresh, const Piece* next, Transform t) {
    static_assert(kMostGroups == 2);
    return groups == 2 ? add_groups<T, transformed, 2>(sums, rows, factors, begin, end, fresh, next, t)
                       : add_groups<T, transformed, 1>(sums, rows, factors, begin, end, fresh, next, t);
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
