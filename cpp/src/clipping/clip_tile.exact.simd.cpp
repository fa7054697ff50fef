// Computes sums of squares and weighted sums over a tile of columns, in doubles or in integers.
// docs/theory/clipping.md, sections 2 and 3, describes the orders of summation and the rounding errors.
#include "clip_tile.hpp"

#include <algorithm>
#include <type_traits>

#include "row_vectors.hpp"

namespace tightdp::TIGHTDP_ISA {

namespace {

// True for rows of float32 or a narrower type without a transform (clip_tile.hpp). The entries of such rows are squared
// exactly in double, and four such rows at a time are added in float32. All other rows are squared and added in double.
template <class T, bool transformed>
inline constexpr bool kSingle = sizeof(T) <= 4 && !transformed;

template <class T, bool transformed>
TIGHTDP_CLIP_INLINE Wide load_clip_entries(const T* p, [[maybe_unused]] Transform t, [[maybe_unused]] std::int64_t j) {
    if constexpr (transformed)
        return (load_wide_row_vector(p + j) - load_wide_row_vector(t.center + j)) *
               load_wide_row_vector(t.inverse_scale + j);
    else
        return load_wide_row_vector(p + j);
}

// The type of a clip factor, which is the precision in which a row is multiplied.
template <class T, bool transformed>
using Factor = std::conditional_t<kSingle<T, transformed>, float, double>;

// Number of columns that are processed at a time. There are as many running sums of squares. The number does not
// depend on the width of the registers, so that a column always belongs to the same running sum.
constexpr int kColumns = 16;
constexpr int kVecs = kColumns / kWidth;

// Number of bytes by which each row is prefetched ahead. The processor's own prefetching stops at the end of a page. If
// eight rows are read side by side, work on the other rows hides the wait. Without prefetching, reading rows one by one
// takes a third longer.
constexpr std::int64_t kAhead = 512;

template <class T>
TIGHTDP_CLIP_INLINE void prefetch_clip_row(const T* p) {
    for (std::int64_t c = 0; c < kColumns; c += 64 / static_cast<std::int64_t>(sizeof(T)))
        __builtin_prefetch(reinterpret_cast<const char*>(p + c) + kAhead, 0, 3);
}

// The running sums of squares of one row.
template <class T, bool transformed>
struct Squares {
    Wide sums[kVecs];

    TIGHTDP_CLIP_INLINE void clear_clip_tile_squares(Squares& s) {
        for (auto& v : s.sums) v = {DoubleVec{}, DoubleVec{}};
    }

    TIGHTDP_CLIP_INLINE void take_clip_tile_squares(Squares& s, const T* p, Transform t, std::int64_t j) {
        for (int v = 0; v < kVecs; ++v) {
            const Wide x = load_clip_entries<T, transformed>(p, t, j + v * kWidth);
            if constexpr (kSingle<T, transformed>)
                s.sums[v] = {add_exact_row_vector_square(s.sums[v].low, x.low),
                             add_exact_row_vector_square(s.sums[v].high, x.high)};
            else
                s.sums[v] = s.sums[v] + x * x;
        }
    }

    // Returns the sum of the running sums. The second half of the sums is added to the first half, and so on down to
    // one number.
    TIGHTDP_CLIP_INLINE double total_clip_tile_squares(Squares& s) {
        for (int half = kVecs / 2; half > 0; half /= 2)
            for (int v = 0; v < half; ++v) s.sums[v] = s.sums[v] + s.sums[v + half];
        double last[kWidth / 2];
        *reinterpret_cast<DoublesAt*>(last) = s.sums[0].low + s.sums[0].high;
        for (int half = kWidth / 4; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) last[i] += last[i + half];
        return last[0];
    }
};

// Returns sum_r factors[r] * row_r over the rows r of one group, for kWidth columns.
template <class T, bool transformed>
TIGHTDP_CLIP_INLINE Wide sum_clip_group(const T* const* rows, const Factor<T, transformed>* factors, Transform t,
                                        std::int64_t j) {
    if constexpr (kSingle<T, transformed>) {
        FloatVec total = load_row_vector(rows[0] + j) * factors[0];
        for (int r = 1; r < kGroup; ++r) total += load_row_vector(rows[r] + j) * factors[r];
        return widen_row_vector(total);
    } else {
        Wide total = load_clip_entries<T, transformed>(rows[0], t, j) * factors[0];
        for (int r = 1; r < kGroup; ++r) total = total + load_clip_entries<T, transformed>(rows[r], t, j) * factors[r];
        return total;
    }
}

// Returns sum_r trunc(factors[r] * row_r) over all rows r of a sweep, for kWidth columns. Each product is rounded to
// floating point before it is truncated.
template <class T, bool transformed, int count>
TIGHTDP_CLIP_INLINE IntVec sum_clip_tile_integers(const T* const* rows, const Factor<T, transformed>* factors, Transform t,
                                             std::int64_t j) {
    IntVec total{};
    for (int r = 0; r < count; ++r) {
        if constexpr (kSingle<T, transformed>)
            total += truncate_row_vector(load_row_vector(rows[r] + j) * factors[r]);
        else
            total += truncate_row_vector(load_clip_entries<T, transformed>(rows[r], t, j) * factors[r]);
    }
    return total;
}

// Copies the last n < kColumns columns of a row, and pads them with zeros.
template <class T>
TIGHTDP_CLIP_INLINE const T* pad_clip_columns(T (&to)[kColumns], const T* p, std::int64_t n) {
    for (int i = 0; i < kColumns; ++i) to[i] = i < n ? p[i] : T{};
    return to;
}

// A copy of the last columns of the rows. The copy is not a member of the struct Rows, since the other members of Rows
// would then not stay in registers.
template <class T, int groups>
struct Tail {
    T rows[groups * kGroup][kColumns];
    double center[kColumns], inverse[kColumns];
};

// The rows of a sweep. The pointers are copied to variables of this struct, so that the compiler knows that no output
// overwrites them.
template <class T, bool transformed, int groups>
struct Rows {
    static constexpr int count = groups * kGroup;
    const T* rows[count];
    Transform t;

    TIGHTDP_CLIP_INLINE void take_clip_rows(Rows& s, const Sweep& given) {
        for (int r = 0; r < count; ++r) s.rows[r] = static_cast<const T*>(given.rows[r]);
        s.t = given.transform;
    }
    // Replaces each row by a padded copy of its last `left` columns, which start at column j.
    TIGHTDP_CLIP_INLINE void pad_clip_rows(Rows& s, Tail<T, groups>& to, std::int64_t j, std::int64_t left) {
        for (int r = 0; r < count; ++r) s.rows[r] = pad_clip_columns(to.rows[r], s.rows[r] + j, left);
        if constexpr (transformed)
            s.t = {pad_clip_columns(to.center, s.t.center + j, left),
                   pad_clip_columns(to.inverse, s.t.inverse_scale + j, left)};
    }
};

template <class T, bool transformed, int groups>
struct Squarer {
    Rows<T, transformed, groups> of;
    Squares<T, transformed> running[groups * kGroup];

    // Adds the squares of kColumns columns, from column j on.
    TIGHTDP_CLIP_INLINE void visit_clip_columns(Squarer& s, std::int64_t j) {
#pragma GCC unroll 8  // so that the running sums of all rows are in registers
        for (int r = 0; r < s.of.count; ++r) {
            prefetch_clip_row(s.of.rows[r] + j);
            s.running[r].take_clip_tile_squares(s.running[r], s.of.rows[r], s.of.t, j);
        }
    }
};

template <class T, bool transformed, int groups>
void square_clip_tile(const Sweep& given, double* squares) {
    Squarer<T, transformed, groups> s;
    s.of.take_clip_rows(s.of, given);
    for (auto& running : s.running) running.clear_clip_tile_squares(running);
    std::int64_t j = 0;
    for (; j + kColumns <= given.n; j += kColumns) s.visit_clip_columns(s, j);
    if (const std::int64_t left = given.n - j; left > 0) {
        Tail<T, groups> tail;
        s.of.pad_clip_rows(s.of, tail, j, left);
        s.visit_clip_columns(s, 0);
    }
    for (int r = 0; r < s.of.count; ++r) squares[r] += s.running[r].total_clip_tile_squares(s.running[r]);
}

template <class T, bool transformed, int groups, class Sum>
struct Adder {
    Rows<T, transformed, groups> of;
    Factor<T, transformed> factors[groups * kGroup];
    Sum* sums;
    bool fresh;  // true if the sums start from 0, whatever `sums` holds

    // Adds kColumns columns of the rows, from column j on.
    TIGHTDP_CLIP_INLINE void visit_clip_columns(Adder& s, std::int64_t j) {
        for (int v = 0; v < kVecs; ++v) {
            const std::int64_t at = j + v * kWidth;
            if constexpr (std::is_same_v<Sum, double>) {
                Wide total = s.fresh ? Wide{DoubleVec{}, DoubleVec{}} : load_wide_row_vector(s.sums + at);
                for (int r = 0; r < s.of.count; r += kGroup)
                    total = total + sum_clip_group<T, transformed>(s.of.rows + r, s.factors + r, s.of.t, at);
                store_row_vector(s.sums + at, total);
            } else {
                add_row_vector_integers(
                    s.sums + at, sum_clip_tile_integers<T, transformed, groups * kGroup>(s.of.rows, s.factors, s.of.t, at),
                    s.fresh);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < s.of.count; ++r) prefetch_clip_row(s.of.rows[r] + j);
    }
};

template <class T, bool transformed, int groups, class Sum>
void add_clip_tile(const Sweep& given, const double* factors, void* given_sums, bool fresh) {
    Adder<T, transformed, groups, Sum> s;
    s.of.take_clip_rows(s.of, given);
    for (int r = 0; r < s.of.count; ++r) s.factors[r] = static_cast<Factor<T, transformed>>(factors[r]);
    Sum* const sums = static_cast<Sum*>(given_sums);
    s.sums = sums, s.fresh = fresh;
    std::int64_t j = 0;
    for (; j + kColumns <= given.n; j += kColumns) s.visit_clip_columns(s, j);
    if (const std::int64_t left = given.n - j; left > 0) {
        Tail<T, groups> tail;
        Sum last[kColumns];
        s.of.pad_clip_rows(s.of, tail, j, left);
        s.sums = last, pad_clip_columns(last, sums + j, fresh ? 0 : left);
        s.visit_clip_columns(s, 0);
        std::copy_n(last, left, sums + j);
    }
}

template <class T, bool transformed>
void square_clip_groups(const Sweep& s, double* squares) {
    static_assert(kMostGroups == 2);
    s.groups == 2 ? square_clip_tile<T, transformed, 2>(s, squares) : square_clip_tile<T, transformed, 1>(s, squares);
}

template <class T, bool transformed, class Sum>
void add_clip_groups(const Sweep& s, const double* factors, void* sums, bool fresh) {
    s.groups == 2 ? add_clip_tile<T, transformed, 2, Sum>(s, factors, sums, fresh)
                  : add_clip_tile<T, transformed, 1, Sum>(s, factors, sums, fresh);
}

template <class T, bool transformed>
ClipKernels choose_clip_kernels(bool exact) {
    return {&square_clip_groups<T, transformed>,
            exact ? &add_clip_groups<T, transformed, std::int64_t> : &add_clip_groups<T, transformed, double>};
}

template <class T>
ClipKernels choose_clip_kernels(bool transformed, bool exact) {
    return transformed ? choose_clip_kernels<T, true>(exact) : choose_clip_kernels<T, false>(exact);
}

template <class Real>
void finish_clip_tile(Real* __restrict out, const double* __restrict sums, const Real* __restrict noise,
                      double deviation, std::int64_t n, bool add) {
    for (std::int64_t j = 0; j < n; ++j) {
        double value = sums[j];
        if (noise) value += deviation * static_cast<double>(noise[j]);
        out[j] = static_cast<Real>(add ? static_cast<double>(out[j]) + value : value);
    }
}

template <class Real>
void finish_clip_integers(Real* __restrict out, const std::int64_t* __restrict integers, double grid, std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) out[j] = static_cast<Real>(static_cast<double>(integers[j]) * grid);
}

}  // namespace

ClipKernels clip_tile_kernels(Dtype dtype, bool transformed, bool exact) {
    return call_for_clip_tile_dtype(dtype, [&]<class T> { return choose_clip_kernels<T>(transformed, exact); });
}

FinishKernels clip_finish_kernels() {
    return {&finish_clip_tile<float>, &finish_clip_tile<double>, &finish_clip_integers<float>,
            &finish_clip_integers<double>};
}

}  // namespace tightdp::TIGHTDP_ISA
