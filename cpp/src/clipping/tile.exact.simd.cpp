// Norms and weighted sums of a tile of columns, in doubles or in integers. Orders of summation and rounding
// errors: docs/theory/clipping.md.
#include <algorithm>
#include <type_traits>

#include "kernels.hpp"
#include "vec.hpp"

namespace tightdp::TIGHTDP_ISA {

namespace {

// Rows that are squared exactly in double and added in float32, four at a time; the others are all double.
template <class T, bool transformed>
inline constexpr bool kSingle = sizeof(T) <= 4 && !transformed;

template <class T, bool transformed>
TIGHTDP_CLIP_INLINE Wide entries(const T* p, [[maybe_unused]] Transform t, [[maybe_unused]] long j) {
    if constexpr (transformed)
        return (load_wide(p + j) - load_wide(t.center + j)) * load_wide(t.inverse_scale + j);
    else
        return load_wide(p + j);
}

// Factors, in the precision that they multiply in.
template <class T, bool transformed>
using Factor = std::conditional_t<kSingle<T, transformed>, float, double>;

// Sixteen columns at a time, and the sixteen running sums of squares that they belong to whatever the width
// of the registers.
constexpr int kColumns = 16;
constexpr int kVecs = kColumns / kWidth;

// Bytes ahead in each row. Eight rows side by side hide each other's page ends, where the processor's own
// prefetching stops; a single row is read a third slower.
constexpr long kAhead = 512;

template <class T>
TIGHTDP_CLIP_INLINE void prefetch(const T* p) {
    for (long c = 0; c < kColumns; c += 64 / static_cast<long>(sizeof(T)))
        __builtin_prefetch(reinterpret_cast<const char*>(p + c) + kAhead, 0, 3);
}

// The running sums of squares of one row.
template <class T, bool transformed>
struct Squares {
    Wide sums[kVecs];

    TIGHTDP_CLIP_INLINE void clear(Squares& s) {
        for (auto& v : s.sums) v = {DoubleVec{}, DoubleVec{}};
    }

    TIGHTDP_CLIP_INLINE void take(Squares& s, const T* p, Transform t, long j) {
        for (int v = 0; v < kVecs; ++v) {
            const Wide x = entries<T, transformed>(p, t, j + v * kWidth);
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

// sum_r factors[r] * row_r over kWidth columns of one group.
template <class T, bool transformed>
TIGHTDP_CLIP_INLINE Wide group_sum(const T* const* rows, const Factor<T, transformed>* factors, Transform t,
                                   long j) {
    if constexpr (kSingle<T, transformed>) {
        FloatVec total = load(rows[0] + j) * factors[0];
        for (int r = 1; r < kGroup; ++r) total += load(rows[r] + j) * factors[r];
        return widen(total);
    } else {
        Wide total = entries<T, transformed>(rows[0], t, j) * factors[0];
        for (int r = 1; r < kGroup; ++r) total = total + entries<T, transformed>(rows[r], t, j) * factors[r];
        return total;
    }
}

// sum_r trunc(factors[r] * row_r) over kWidth columns of all rows of a sweep, each product rounded first.
template <class T, bool transformed, int count>
TIGHTDP_CLIP_INLINE IntVec integer_sum(const T* const* rows, const Factor<T, transformed>* factors,
                                       Transform t, long j) {
    IntVec total{};
    for (int r = 0; r < count; ++r) {
        if constexpr (kSingle<T, transformed>)
            total += truncated(load(rows[r] + j) * factors[r]);
        else
            total += truncated(entries<T, transformed>(rows[r], t, j) * factors[r]);
    }
    return total;
}

// What is done to the rows of one block: nothing, a sum in doubles or one in integers.
enum class Adds { nothing, doubles, integers };

// What a sweep works on, in variables of its own, so that nothing it writes to can be among them.
template <class T, bool transformed, int groups, Adds adds, bool squares>
struct Sweeper {
    using Sum = std::conditional_t<adds == Adds::integers, std::int64_t, double>;
    static constexpr int count = groups * kGroup;
    const T *rows[count], *next[count];
    Factor<T, transformed> factors[count];
    Sum* sums;
    bool fresh;
    Transform t;
    Squares<T, transformed> running[count];

    // kColumns columns from j on.
    TIGHTDP_CLIP_INLINE void columns(Sweeper& s, long j) {
        for (int v = 0; v < kVecs; ++v) {
            const long at = j + v * kWidth;
            if constexpr (adds == Adds::doubles) {
                Wide total = s.fresh ? Wide{DoubleVec{}, DoubleVec{}} : load_wide(s.sums + at);
                for (int r = 0; r < count; r += kGroup)
                    total = total + group_sum<T, transformed>(s.rows + r, s.factors + r, s.t, at);
                store(s.sums + at, total);
            } else if constexpr (adds == Adds::integers) {
                add_integers(s.sums + at, integer_sum<T, transformed, count>(s.rows, s.factors, s.t, at),
                             s.fresh);
            }
        }
#pragma GCC unroll 8  // so that the running sums of all rows are in registers
        for (int r = 0; r < count; ++r) {
            if constexpr (squares) {
                prefetch(s.next[r] + j);
                s.running[r].take(s.running[r], s.next[r], s.t, j);
            } else {
                prefetch(s.rows[r] + j);  // nothing else comes from memory
            }
        }
    }
};

// The last n < kColumns columns of rows, padded with zeros.
template <class T>
TIGHTDP_CLIP_INLINE const T* padded(T (&to)[kColumns], const T* p, long n) {
    for (int i = 0; i < kColumns; ++i) to[i] = i < n ? p[i] : T{};
    return to;
}

template <class T, bool transformed, int groups, Adds adds, bool squares>
void sweep_as(const Sweep& given) {
    constexpr bool summed = adds != Adds::nothing;
    Sweeper<T, transformed, groups, adds, squares> s;
    using Sum = typename decltype(s)::Sum;
    auto* const given_sums = static_cast<Sum*>(given.sums);
    s.sums = given_sums, s.fresh = given.fresh, s.t = given.transform;
    for (int r = 0; r < s.count; ++r) {
        if constexpr (summed) {
            s.rows[r] = static_cast<const T*>(given.rows[r]);
            s.factors[r] = static_cast<Factor<T, transformed>>(given.factors[r]);
        }
        if constexpr (squares) {
            s.next[r] = static_cast<const T*>(given.next[r]);
            s.running[r].clear(s.running[r]);
        }
    }
    long j = 0;
    for (; j + kColumns <= given.n; j += kColumns) s.columns(s, j);
    if (const long left = given.n - j; left > 0) {
        T tails[2 * s.count][kColumns];
        double center[kColumns], inverse[kColumns];
        Sum sums[kColumns];
        for (int r = 0; r < s.count; ++r) {
            if constexpr (summed) s.rows[r] = padded(tails[r], s.rows[r] + j, left);
            if constexpr (squares) s.next[r] = padded(tails[s.count + r], s.next[r] + j, left);
        }
        if constexpr (transformed)
            s.t = {padded(center, s.t.center + j, left), padded(inverse, s.t.inverse_scale + j, left)};
        if constexpr (summed) s.sums = sums, padded(sums, given_sums + j, given.fresh ? 0 : left);
        s.columns(s, 0);
        if constexpr (summed) std::copy_n(sums, left, given_sums + j);
    }
    if constexpr (squares)
        for (int r = 0; r < s.count; ++r) given.squares[r] += s.running[r].total(s.running[r]);
}

template <class T, bool transformed, int groups, Adds adds>
void sweep_groups(const Sweep& s) {
    if (s.rows && s.next)
        sweep_as<T, transformed, groups, adds, true>(s);
    else if (s.rows)
        sweep_as<T, transformed, groups, adds, false>(s);
    else
        sweep_as<T, transformed, groups, Adds::nothing, true>(s);
}

template <class T, bool transformed, Adds adds>
void sweep(const Sweep& s) {
    static_assert(kMostGroups == 2);
    s.groups == 2 ? sweep_groups<T, transformed, 2, adds>(s) : sweep_groups<T, transformed, 1, adds>(s);
}

template <class T, bool transformed>
ClipKernels kernels(bool exact) {
    return {exact ? &sweep<T, transformed, Adds::integers> : &sweep<T, transformed, Adds::doubles>};
}

template <class T>
ClipKernels kernels(bool transformed, bool exact) {
    return transformed ? kernels<T, true>(exact) : kernels<T, false>(exact);
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

template <class Real>
void finish_integers(Real* __restrict out, const std::int64_t* __restrict integers, double grid, long n) {
    for (long j = 0; j < n; ++j) out[j] = static_cast<Real>(static_cast<double>(integers[j]) * grid);
}

}  // namespace

ClipKernels clip_kernels(Dtype dtype, bool transformed, bool exact) {
    return with_dtype(dtype, [&]<class T> { return kernels<T>(transformed, exact); });
}

FinishKernels finish_kernels() {
    return {&finish<float>, &finish<double>, &finish_integers<float>, &finish_integers<double>};
}

}  // namespace tightdp::TIGHTDP_ISA
