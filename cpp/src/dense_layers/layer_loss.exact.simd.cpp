// Computes for each record the loss of its scores and the derivatives of the loss (docs/theory/exact-products.md,
// section 1).
#include "layers.simd.hpp"
#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// load_layer_loss_run() loads kLanes consecutive numbers as doubles. store_layer_loss_run() stores doubles as numbers
// of type float or double.
using Floats = float __attribute__((vector_size(4 * kLanes)));

TIGHTDP_VINLINE Vec load_layer_loss_run(const float* p) {
    Floats v;
    __builtin_memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, Vec);
}
TIGHTDP_VINLINE Vec load_layer_loss_run(const double* p) {
    return load(p);
}

TIGHTDP_VINLINE void store_layer_loss_run(float* p, Vec v) {
    const Floats rounded = __builtin_convertvector(v, Floats);
    __builtin_memcpy(p, &rounded, sizeof rounded);
}
TIGHTDP_VINLINE void store_layer_loss_run(double* p, Vec v) {
    store(p, v);
}

// Returns column o of `count` rows. Lane i has the entry of row i. If count < kLanes, the last row fills the remaining
// lanes.
template <class T>
TIGHTDP_VINLINE Vec load_layer_loss_column(const T* rows, std::int64_t stride, std::int64_t o, std::int64_t count) {
    if (stride == 1 && count == kLanes) return load_layer_loss_run(rows);
    Vec v{};
    for (std::int64_t i = 0; i < kLanes; ++i)
        v[i] = static_cast<double>(rows[(i < count ? i : count - 1) * stride + o]);
    return v;
}

template <class T>
TIGHTDP_VINLINE void store_layer_loss_column(T* rows, std::int64_t stride, std::int64_t o, std::int64_t count, Vec v) {
    if (stride == 1 && count == kLanes) return store_layer_loss_run(rows, v);
    for (std::int64_t i = 0; i < count; ++i) rows[i * stride + o] = static_cast<T>(v[i]);
}

TIGHTDP_VINLINE Vec keep_finite_layer_loss(Vec z, Vec value) {
    return select(abs(z) <= 0x1.fffffffffffffp1023, value, splat(__builtin_nan("")));
}

// Returns 1 in the lanes of records whose class is `one`, and 0 in the other lanes.
TIGHTDP_VINLINE Vec indicate_layer_loss_class(const std::int64_t* targets, std::int64_t one, std::int64_t count) {
    if (count == kLanes) {
        Mask t;
        __builtin_memcpy(&t, targets, sizeof t);
        return select((Mask)(t == one), splat(1.0), splat(0.0));
    }
    Vec v{};
    for (std::int64_t i = 0; i < count; ++i) v[i] = targets[i] == one ? 1.0 : 0.0;
    return v;
}

// The value and the derivative of the logistic loss log(1 + exp(-y z)), or of the Huberised hinge loss, at one score z.
// The label is y = 2 own - 1, where `own` is 1 if the score belongs to the record's class and 0 otherwise.
struct OneScore {
    Vec derivative, value;
};

TIGHTDP_VINLINE OneScore layer_logistic_loss(Vec z, Vec own) {
    const Vec e = exp(-abs(z)), p = select(z >= 0.0, splat(1.0), e) / (1.0 + e);
    const Vec margin = select(own > 0.5, -z, z);
    return {p - own, log(1.0 + e) + max(margin, splat(0.0))};
}

TIGHTDP_VINLINE OneScore layer_hinge_loss(Vec z, Vec own, double h) {
    const Vec y = 2.0 * own - 1.0, gap = 1.0 - y * z;
    if (!(h > 0)) return {select(gap > 0.0, -y, splat(0.0)), max(gap, splat(0.0))};
    const Vec slope = min(max((gap + h) / (2 * h), splat(0.0)), splat(1.0));
    const Vec inside = (gap + h) * (gap + h) / (4 * h);
    return {-y * slope, select(gap > h, gap, select(gap < -h, splat(0.0), inside))};
}

TIGHTDP_VINLINE OneScore layer_loss_of_score(LossKind kind, Vec z, Vec own, double h) {
    return kind == LossKind::logistic ? layer_logistic_loss(z, own) : layer_hinge_loss(z, own, h);
}

template <class T>
struct Softmax {
    Vec top, sum;
    Vec finite;  // 0, or NaN if a score of the row is not finite
};

// Computes the softmax of kLanes rows of scores z. The exponentials are written to `powers` unless `powers` is null.
template <class T>
TIGHTDP_VINLINE Softmax<T> layer_loss_softmax(const T* z, std::int64_t outputs, std::int64_t count, T* powers) {
    Softmax<T> s{load_layer_loss_column(z, outputs, 0, count), splat(0.0), splat(0.0)};
    for (std::int64_t o = 0; o < outputs; ++o) {
        const Vec x = load_layer_loss_column(z, outputs, o, count);
        s.top = max(s.top, x);
        s.finite = s.finite + keep_finite_layer_loss(x, splat(0.0));
    }
    for (std::int64_t o = 0; o < outputs; ++o) {
        const Vec e = exp(load_layer_loss_column(z, outputs, o, count) - s.top);
        if (powers) store_layer_loss_column(powers, outputs, o, count, e);
        s.sum += e;
    }
    return s;
}

template <class T>
void layer_loss_residual(const LossRequest<T>& r, T* out) {
    const std::int64_t d = r.outputs;
    for (std::int64_t k = 0; k < r.rows; k += kLanes) {
        const std::int64_t count = r.rows - k < kLanes ? r.rows - k : kLanes;
        const T* const z = r.z + k * d;
        if (r.kind == LossKind::multinomial) {
            const auto s = layer_loss_softmax(z, d, count, out + k * d);
            const Vec inverse = 1.0 / s.sum + s.finite;
            for (std::int64_t o = 0; o < d; ++o)
                store_layer_loss_column(out + k * d, d, o, count,
                                        load_layer_loss_column(out + k * d, d, o, count) * inverse -
                                            indicate_layer_loss_class(r.targets + k, o, count));
            continue;
        }
        Vec finite = splat(0.0);
        for (std::int64_t o = 0; o < d; ++o)
            finite = finite + keep_finite_layer_loss(load_layer_loss_column(z, d, o, count), splat(0.0));
        for (std::int64_t o = 0; o < d; ++o) {
            const Vec own = indicate_layer_loss_class(r.targets + k, d == 1 ? 1 : o, count);
            store_layer_loss_column(
                out + k * d, d, o, count,
                layer_loss_of_score(r.kind, load_layer_loss_column(z, d, o, count), own, r.width).derivative + finite);
        }
    }
}

template <class T>
void layer_loss_value(const LossRequest<T>& r, double* out) {
    const std::int64_t d = r.outputs;
    for (std::int64_t k = 0; k < r.rows; k += kLanes) {
        const std::int64_t count = r.rows - k < kLanes ? r.rows - k : kLanes;
        const T* const z = r.z + k * d;
        Vec sum = splat(0.0);
        if (r.kind == LossKind::multinomial) {
            const auto s = layer_loss_softmax(z, d, count, static_cast<T*>(nullptr));
            Vec chosen{};
            for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t own = r.targets[k + i];
                chosen[i] = own >= 0 && own < d ? static_cast<double>(z[i * d + own]) : __builtin_nan("");
            }
            sum = log(s.sum) + (s.top - chosen) + s.finite;
        } else {
            for (std::int64_t o = 0; o < d; ++o) {
                const Vec x = load_layer_loss_column(z, d, o, count),
                          own = indicate_layer_loss_class(r.targets + k, d == 1 ? 1 : o, count);
                sum += keep_finite_layer_loss(x, layer_loss_of_score(r.kind, x, own, r.width).value);
            }
        }
        store_layer_loss_column(out + k, 1, 0, count, sum);
    }
}

// Computes tanh x = e / (e + 2) with e = exp(2x) - 1. For |x| > 20 the result is 1 or -1 to the last bit.
template <class T>
void layer_tanh(const T* x, std::int64_t n, T* out) {
    for (std::int64_t k = 0; k < n; k += kLanes) {
        const std::int64_t count = n - k < kLanes ? n - k : kLanes;
        const Vec v = load_layer_loss_column(x + k, 1, 0, count);
        const Vec e = expm1(2.0 * max(min(v, splat(20.0)), splat(-20.0)));
        store_layer_loss_column(out + k, 1, 0, count, select(v == v, e / (e + 2.0), v));
    }
}

}  // namespace

ForBothTypes<LossKernels> layer_loss_kernels() {
    return {{&layer_loss_residual<float>, &layer_loss_value<float>, &layer_tanh<float>},
            {&layer_loss_residual<double>, &layer_loss_value<double>, &layer_tanh<double>}};
}

}  // namespace tightdp::TIGHTDP_ISA
