// Adds integer outer products of weights and inputs, the clipped gradients of records, in doubles. Doubles hold the
// sums exactly (docs/theory/exact-products.md, section 4).
#include "layer_vectors.hpp"
#include "layers.simd.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// Number of outputs that are added side by side. For each output, kVecs vectors of sums stay in registers.
#if defined(TIGHTDP_ISA_avx512)
constexpr int kOutputs = 4;
#else
constexpr int kOutputs = 2;
#endif
constexpr int kVecs = 4;

// The arguments of accumulate_layer_gradients (layers.simd.hpp).
struct Sums {
    const double* q;
    std::int64_t stride, rows;
    const double* w;
    double* sums;
    std::int64_t sums_stride;
};

template <int outputs, int vecs>
TIGHTDP_VINLINE void add_gradient_tile(const Sums& t, std::int64_t o, std::int64_t j) {
    Vec s[outputs][vecs];
    double* const sums = t.sums + o * t.sums_stride + j;
    const double* const w = t.w + o * kDenseBlock;
#pragma GCC unroll 8
    for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; ++v) s[i][v] = load(sums + i * t.sums_stride + v * kLanes);
    for (std::int64_t k = 0; k < t.rows; ++k) {
#pragma GCC unroll 8
        for (int v = 0; v < vecs; ++v) {
            const Vec x = load(t.q + k * t.stride + j + v * kLanes);
#pragma GCC unroll 8
            for (int i = 0; i < outputs; ++i) s[i][v] += x * w[i * kDenseBlock + k];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; ++v) store(sums + i * t.sums_stride + v * kLanes, s[i][v]);
}

template <int vecs>
TIGHTDP_VINLINE void add_gradient_columns(const Sums& t, std::int64_t outputs, std::int64_t j) {
    std::int64_t o = 0;
    for (; o + kOutputs <= outputs; o += kOutputs) add_gradient_tile<kOutputs, vecs>(t, o, j);
    for (; o < outputs; ++o) add_gradient_tile<1, vecs>(t, o, j);
}

}  // namespace

void accumulate_layer_gradients(const double* q, std::int64_t stride, std::int64_t rows, const double* w,
                                std::int64_t outputs, std::int64_t width, double* sums, std::int64_t sums_stride) {
    static_assert(kSumTile % kLanes == 0);
    const Sums t{q, stride, rows, w, sums, sums_stride};
    std::int64_t j = 0;
    for (; j + kVecs * kLanes <= width; j += kVecs * kLanes) add_gradient_columns<kVecs>(t, outputs, j);
    for (; j < width; j += kLanes) add_gradient_columns<1>(t, outputs, j);
}

}  // namespace tightdp::TIGHTDP_ISA
