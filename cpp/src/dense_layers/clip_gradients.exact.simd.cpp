// Clips the gradients of dense layers (docs/theory/exact-products.md, sections 3 and 5). The errors r_k of record k are
// the derivatives of its loss by a layer's outputs. The layer's inputs were multiplied by a power of two and rounded to
// the integers q_k. The kernels turn r_k into integers w_k with |w_k (x) q_k| <= C / grid. Here (x) is the outer
// product, C is the clipping norm, and `grid` is a power of two. The clipped gradient is w_k (x) q_k times `grid`.
//
// The last step of each kernel compares the norm of w_k (x) q_k with the bound. A record that exceeds the bound
// contributes nothing. The guarantee rests on this comparison alone, whatever rounding errors occur before.
#include "layer_vectors.hpp"
#include "layers.simd.hpp"
#include "simd/transpose.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

constexpr std::int64_t kBlock = kDenseBlock;
using Lanes = double[kBlock];

// Clipping aims at a norm that is smaller than the bound. The relative difference is kSlack + 2 DenseClip::slack. It
// exceeds the rounding errors of the norm, so that the last comparison never drops a record.
constexpr double kSlack = 0x1p-36;

// Largest |v| that counts as finite, where v are the numbers that load_layer_errors() computes.
constexpr double kFinite = 0x1p1022;

TIGHTDP_VINLINE Vec load_layer_doubles(const double* x) {
    return load(x);
}
TIGHTDP_VINLINE Vec load_layer_doubles(const float* x) {
    using Floats = float __attribute__((vector_size(4 * kLanes)));
    Floats v;
    __builtin_memcpy(&v, x, sizeof v);
    return __builtin_convertvector(v, Vec);
}

// Computes v[i * kBlock + k] = errors[k * stride + i] units[k] for k < count and i < run.
template <class T>
TIGHTDP_VINLINE void transpose_layer_errors(const T* errors, std::int64_t stride, std::int64_t count, std::int64_t run,
                                            const double* units, double* v) {
    std::int64_t done = 0;
    for (; run % kLanes == 0 && done + kLanes <= count; done += kLanes)
        for (std::int64_t i = 0; i < run; i += kLanes) {
            Vec rows[kLanes];
            for (int r = 0; r < kLanes; ++r) rows[r] = load_layer_doubles(errors + (done + r) * stride + i);
            transpose(rows);
            for (int r = 0; r < kLanes; ++r) store(v + (i + r) * kBlock + done, rows[r] * load(units + done));
        }
    for (std::int64_t k = done; k < count; ++k)
        for (std::int64_t i = 0; i < run; ++i)
            v[i * kBlock + k] = static_cast<double>(errors[k * stride + i]) * units[k];
}

// Computes v = r / (rounding_factor grid) from the errors r, where `rounding_factor` is the factor by which inputs are
// multiplied before they are rounded to q (DenseLayer::rounding_factors). So v (x) q is the gradient in units of the
// grid. The numbers v are 0 beyond the last record, and where q = 0. top[k] is the largest |v| of record k. top[k]
// exceeds kFinite if an entry is not finite or if the record does not contribute.
template <class T>
TIGHTDP_VINLINE void load_layer_errors(const DenseClip& c, double* v, double* top) {
    for (std::int64_t k = 0; k < kBlock; ++k)
        top[k] = k < c.count && (!c.taken || c.taken[c.first + k]) ? 0.0 : 2 * kFinite;
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        const DenseLayer& layer = c.layers[l];
        const T* const errors = static_cast<const T*>(layer.errors) + c.first * layer.outputs;
        Lanes units;
        for (std::int64_t k = 0; k < kBlock; ++k) {
            const double rounding_factor = k < c.count ? layer.rounding_factors[c.first + k] : 0.0;
            const bool moves = rounding_factor > 0 && layer.squares[c.first + k] > 0;
            units[k] = moves ? c.inverse_grid / rounding_factor : 0.0;
            if (!(rounding_factor > 0)) top[k] = 2 * kFinite;
        }
        // Reads one cache line of each record's errors at a time. The errors of several records for a single output are
        // far apart in memory, and often in the same set of the cache.
        constexpr std::int64_t kRun = 64 / sizeof(T);
        for (std::int64_t o = 0; o < layer.outputs; o += kRun) {
            const std::int64_t run = layer.outputs - o < kRun ? layer.outputs - o : kRun;
            transpose_layer_errors(errors + o, layer.outputs, c.count, run, units, v);
            for (std::int64_t i = 0; i < run; ++i, v += kBlock) {
                for (std::int64_t k = c.count; k < kBlock; ++k) v[k] = 0;
                for (std::int64_t k = 0; k < kBlock; ++k) {
                    const double size = __builtin_fabs(v[k]);
                    const double kept = size <= kFinite ? size : 2 * kFinite;  // NaN becomes 2 * kFinite too
                    top[k] = kept > top[k] ? kept : top[k];
                }
            }
        }
    }
}

// Computes the squared norm |(v scale[k]) (x) q_k|^2 for each record k, over all layers. For one layer, the squared
// norm is squares[k] = |q_k|^2 times the sum over outputs of (v scale[k])^2.
TIGHTDP_VINLINE void sum_layer_squares(const DenseClip& c, const double* v, const double* scale, double* sums) {
    for (std::int64_t k = 0; k < kBlock; ++k) sums[k] = 0;
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        const DenseLayer& layer = c.layers[l];
        Lanes part = {};
        for (std::int64_t o = 0; o < layer.outputs; ++o, v += kBlock)
            for (std::int64_t k = 0; k < kBlock; ++k) {
                const double x = v[k] * scale[k];
                part[k] += x * x;
            }
        for (std::int64_t k = 0; k < c.count; ++k) sums[k] += part[k] * layer.squares[c.first + k];
    }
}

// Computes for each record a power of two whose product with the largest entry `top` lies in [1, 2), or 0 if the record
// does not contribute. If `top` is below 2^-1000, the power of two is 2^1000, and the product is below 1.
TIGHTDP_VINLINE void choose_layer_error_scales(const double* top, double* scale) {
    for (std::int64_t k = 0; k < kBlock; ++k) {
        const double power = layer_power_below(top[k] > 0x1p-1000 ? top[k] : 0x1p-1000);
        scale[k] = top[k] <= kFinite ? 1.0 / power : 0.0;
    }
}

template <class T>
void clip_plain_layers(const DenseClip& c) {
    Lanes top, scale, sums, bound, goal, factor;
    double* const v = c.weights;
    load_layer_errors<T>(c, v, top);
    for (std::int64_t k = 0; k < kBlock; ++k) bound[k] = c.bounds && k < c.count ? c.bounds[c.first + k] : c.bound;
    choose_layer_error_scales(top, scale);
    sum_layer_squares(c, v, scale, sums);
    Lanes margin = {};
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        const double outputs = c.layers[l].formed ? 0.0 : static_cast<double>(c.layers[l].outputs);
        for (std::int64_t k = 0; k < c.count; ++k) margin[k] += outputs * c.layers[l].squares[c.first + k];
    }
    const double reach = 1 - (kSlack + 2 * c.slack), longest = c.normalize ? __builtin_inf() : 1.0;
    // `goal` is the norm to which gradients are shortened. It leaves room for the rounding of the weights w, which
    // changes the part of w (x) q that belongs to one output by a norm of at most |q| / 2. The next loops have no
    // branches, so that the compiler vectorises them.
    for (std::int64_t k = 0; k < kBlock; ++k) goal[k] = bound[k] * reach - 0.5 * __builtin_sqrt(margin[k]);
    for (std::int64_t k = 0; k < kBlock; ++k) factor[k] = goal[k] / __builtin_sqrt(sums[k]);
    for (std::int64_t k = 0; k < kBlock; ++k) {
        const double whole = longest / scale[k];
        factor[k] = factor[k] < whole ? factor[k] : whole;
    }
    for (std::int64_t k = 0; k < kBlock; ++k) factor[k] = sums[k] > 0 ? factor[k] : 0.0;
    for (std::int64_t k = 0; k < kBlock; ++k) factor[k] = goal[k] > 0 ? factor[k] : 0.0;
    if (c.shares)
        for (std::int64_t k = 0; k < c.count; ++k) factor[k] *= c.shares[c.first + k];
    if (c.norms)
        for (std::int64_t k = 0; k < kBlock; ++k)
            c.norms[k] = scale[k] > 0 ? __builtin_sqrt(sums[k]) * (1 + kSlack) / scale[k] : 0.0;
    // The numbers v are now the weights themselves, without an error. Each square and each addition has at most one
    // rounding.
    std::int64_t rows = 0;
    for (double& sum : sums) sum = 0;
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        Lanes part = {};
        for (std::int64_t o = 0; o < c.layers[l].outputs; ++o, ++rows) {
            double* const row = v + rows * kBlock;
            for (std::int64_t k = 0; k < kBlock; ++k) {
                const double scaled = scale[k] > 0 ? row[k] * scale[k] * factor[k] : 0.0;
                row[k] = c.layers[l].formed ? scaled : round_layer_number(scaled);
                part[k] += row[k] * row[k];
            }
        }
        for (std::int64_t k = 0; k < c.count; ++k) sums[k] += part[k] * c.layers[l].squares[c.first + k];
    }
    bool dropped = false;
    for (std::int64_t k = 0; k < kBlock; ++k) {
        factor[k] = sums[k] <= bound[k] * bound[k] * (1 - c.slack) ? 1.0 : 0.0;
        dropped |= factor[k] == 0;
    }
    for (std::int64_t i = 0; dropped && i < rows; ++i)
        for (std::int64_t k = 0; k < kBlock; ++k) v[i * kBlock + k] = factor[k] > 0 ? v[i * kBlock + k] : 0.0;
}

// Sixteen running sums, whatever the width of the registers, so that the order of the additions does not depend on the
// width.
struct Sixteen {
    Vec part[16 / kLanes];
};

TIGHTDP_VINLINE double total_sixteen_gradient_sums(const Sixteen& s) {
    double lanes[16];
    __builtin_memcpy(lanes, &s, sizeof lanes);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
}

// Returns the sum over layers and entries of ((v q - f A) grid / b)^2 for record k. Here v are the errors or weights of
// the record, and q its inputs as integers. A is the centre in integers, f the factor by which A is multiplied, and b
// the scale (DenseLayer).
TIGHTDP_VINLINE double sum_scaled_layer_squares(const DenseClip& c, const double* v, double f, std::int64_t k) {
    Sixteen sums = {};
    const double* q = c.scratch;
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        const DenseLayer& layer = c.layers[l];
        for (std::int64_t o = 0; o < layer.outputs; ++o, v += kBlock) {
            const double *const a = layer.center + o * layer.padded, *const s = layer.inverse_scale + o * layer.padded;
            const Vec vo = splat(v[k]), fo = splat(f);
            for (std::int64_t j = 0; j < layer.padded; j += 16)
                for (int p = 0; p < 16 / kLanes; ++p) {
                    const std::int64_t at = j + p * kLanes;
                    const Vec t = (vo * load(q + at) - fo * load(a + at)) * load(s + at);
                    sums.part[p] += t * t;
                }
        }
        q += layer.padded;
    }
    return total_sixteen_gradient_sums(sums);
}

// Writes the integers q of record k to the scratch, and returns the sum of (q grid / b)^2 over all layers and entries.
template <class T>
TIGHTDP_VINLINE double round_scaled_layer_rows(const DenseClip& c, std::int64_t k) {
    Sixteen sums = {};
    double* q = c.scratch;
    for (std::int64_t l = 0; l < c.layer_count; ++l) {
        const DenseLayer& layer = c.layers[l];
        const double rounding_factor = layer.rounding_factors[c.first + k];
        round_layer_row(static_cast<const T*>(layer.inputs) + (c.first + k) * layer.columns, layer.columns,
                        rounding_factor, q);
        if (layer.bias) q[layer.columns] = round_layer_number(rounding_factor);
        for (std::int64_t j = 0; j < layer.padded; j += 16)
            for (int p = 0; p < 16 / kLanes; ++p) {
                const Vec x = load(q + j + p * kLanes);
                sums.part[p] += x * x * load(layer.column_squares + j + p * kLanes);
            }
        q += layer.padded;
    }
    return total_sixteen_gradient_sums(sums);
}

template <class T>
void clip_scaled_layers(const DenseClip& c) {
    Lanes top, scale;
    double* const v = c.weights;
    load_layer_errors<T>(c, v, top);
    choose_layer_error_scales(top, scale);
    std::int64_t rows = 0;
    for (std::int64_t l = 0; l < c.layer_count; ++l) rows += c.layers[l].outputs;
    for (std::int64_t k = 0; k < kBlock; ++k) {
        double f = 0;
        if (scale[k] > 0) {
            const double margin =
                0.5 * (__builtin_sqrt(round_scaled_layer_rows<T>(c, k)) + c.center_norm / kCenterUnit);
            const double norm = __builtin_sqrt(sum_scaled_layer_squares(c, v, kCenterUnit, k));
            const double goal = c.bound * (1 - (kSlack + 2 * c.slack)) - margin;
            const double wanted = goal / norm;
            double factor = c.normalize || wanted < 1 ? wanted : 1.0;
            if (!(norm > 0 && norm <= kFinite && goal > 0 && factor > 0 && factor <= kFinite)) factor = 0;
            if (c.shares) factor *= c.shares[c.first + k];
            if (c.norms) c.norms[k] = norm * (1 + kSlack);
            f = factor > 0 ? round_layer_number(factor * kCenterUnit) : 0.0;
            for (std::int64_t i = 0; i < rows; ++i)
                v[i * kBlock + k] = factor > 0 ? round_layer_number(v[i * kBlock + k] * factor) : 0.0;
            // The integers are below 2^53, so doubles hold them without error. All terms of the sum are squares, so the
            // relative error of the sum is small.
            if (!(sum_scaled_layer_squares(c, v, f, k) <= c.bound * c.bound * (1 - c.slack))) scale[k] = 0;
        } else if (c.norms) {
            c.norms[k] = 0;
        }
        if (!(scale[k] > 0)) {
            f = 0;
            for (std::int64_t i = 0; i < rows; ++i) v[i * kBlock + k] = 0;
        }
        c.factors[k] = f;
    }
}

}  // namespace

ForBothTypes<DenseClipKernels> layer_clip_kernels() {
    return {{&clip_plain_layers<float>, &clip_scaled_layers<float>},
            {&clip_plain_layers<double>, &clip_scaled_layers<double>}};
}

}  // namespace tightdp::TIGHTDP_ISA
