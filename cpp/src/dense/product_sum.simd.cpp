// Sums of integer outer products in 16 and 32 bits. docs/theory/exact-products.md, section 7.
#include "product_sum.simd.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "vec.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

constexpr int kWords = 2 * kLanes;
using Words = std::int32_t __attribute__((vector_size(8 * kLanes)));
constexpr int kParts = 2 * static_cast<int>(kProductOutputs);
// Registers of columns side by side: as many sums as the registers hold.
#if defined(TIGHTDP_ISA_avx512)
constexpr int kVecs = 2;
#else
constexpr int kVecs = 1;
#endif

// s + x0 w0 + x1 w1 in each lane of 32 bits, x0 the lower half of x. AVX512-VNNI has one instruction for both steps; on
// an AMD EPYC of the fourth generation it took 1.8 times as long.
TIGHTDP_VINLINE Words multiply_add(Words s, Words x, Words w) {
#if defined(TIGHTDP_ISA_avx512)
    return s + (Words)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#elif defined(TIGHTDP_ISA_avx2)
    return s + (Words)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif defined(__SSE2__)
    return s + (Words)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
    return s + (x >> 16) * (w >> 16) + ((x << 16) >> 16) * ((w << 16) >> 16);
#endif
}

// sums[part][column] of one tile.
TIGHTDP_VINLINE void tile(const std::int32_t* pairs, std::int64_t count, const std::int16_t* parts,
                          std::int32_t* sums) {
    for (std::int64_t c = 0; c < kProductColumns; c += kVecs * kWords) {
        Words s[kParts][kVecs] = {};
        for (std::int64_t k = 0; k < count; ++k) {
            Words x[kVecs];
#pragma GCC unroll 2
            for (int v = 0; v < kVecs; ++v)
                __builtin_memcpy(&x[v], pairs + k * kProductColumns + c + v * kWords, sizeof x[v]);
#pragma GCC unroll 8
            for (int i = 0; i < kParts; ++i) {
                std::int32_t both;
                __builtin_memcpy(&both, parts + i * kProductRecords + 2 * k, sizeof both);
                const Words w = both - Words{};
#pragma GCC unroll 2
                for (int v = 0; v < kVecs; ++v) s[i][v] = multiply_add(s[i][v], x[v], w);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < kParts; ++i)
#pragma GCC unroll 2
            for (int v = 0; v < kVecs; ++v)
                __builtin_memcpy(sums + i * kProductColumns + c + v * kWords, &s[i][v], sizeof s[i][v]);
    }
}

template <class T>
TIGHTDP_VINLINE std::uint32_t entry(T x, double step) {
    const double q = nearest(static_cast<double>(x) * step);
    const double up = q > -kLargestEntry ? q : -kLargestEntry;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(up < kLargestEntry ? up : kLargestEntry));
}

template <class T>
TIGHTDP_VINLINE void pair(const T* a, double step_a, const T* b, double step_b, std::int64_t columns,
                          std::int32_t* pairs) {
    for (std::int64_t j = 0; j < columns; ++j)
        pairs[j] = static_cast<std::int32_t>((entry(a[j], step_a) & 0xffff) | entry(b[j], step_b) << 16);
}

// The integers of rows 2k and 2k + 1 side by side: [tile][k][column]. A row whose step is 0 may hold what is not
// finite, and becomes zeros, as does what is missing of a tile.
template <class T>
TIGHTDP_VINLINE void pair_rows(const ProductBlock<T>& b, std::int64_t count) {
    static constexpr T zeros[kProductColumns] = {};
    std::int32_t* out = b.pairs;
    for (std::int64_t j = 0; j < b.columns; j += kProductColumns)
        for (std::int64_t k = 0; k < 2 * count; k += 2, out += kProductColumns) {
            const bool first = b.steps[k] > 0, second = k + 1 < b.records && b.steps[k + 1] > 0;
            const T *const x = first ? b.x + k * b.x_stride + j : zeros, *const y = second
                                                                                        ? b.x + (k + 1) * b.x_stride + j
                                                                                        : zeros;
            const double step_x = first ? b.steps[k] : 1.0, step_y = second ? b.steps[k + 1] : 1.0;
            if (b.columns - j >= kProductColumns) {
                pair(x, step_x, y, step_y, kProductColumns, out);
            } else {
                pair(x, step_x, y, step_y, b.columns - j, out);
                for (std::int64_t i = b.columns - j; i < kProductColumns; ++i) out[i] = 0;
            }
        }
}

template <class T>
void add(const ProductBlock<T>& b) {
    alignas(64) std::int32_t sums[kParts * kProductColumns];
    const std::int64_t count = (b.records + 1) / 2;
    pair_rows(b, count);
    for (std::int64_t j = 0; j < b.columns; j += kProductColumns) {
        const std::int64_t width = b.columns - j < kProductColumns ? b.columns - j : kProductColumns;
        for (std::int64_t o = 0; o < b.outputs; ++o) {
            const std::int64_t within = o % kProductOutputs;
            if (within == 0) tile(b.pairs + j * count, count, b.parts + 2 * o * kProductRecords, sums);
            const std::int32_t *const low = sums + 2 * within * kProductColumns, *const high = low + kProductColumns;
            auto* const total = reinterpret_cast<std::uint64_t*>(b.totals + o * b.stride + j);
            for (std::int64_t c = 0; c < width; ++c)
                total[c] += static_cast<std::uint64_t>(std::int64_t{high[c]} * (1 << kLowDigits) + low[c]);
        }
    }
}

// The integer that a double below 2^51 is.
TIGHTDP_VINLINE std::uint64_t integer(double x) {
    return __builtin_bit_cast(std::uint64_t, x + kNearest) - __builtin_bit_cast(std::uint64_t, kNearest);
}

// One row after the other into sums that stay in the first-level cache.
template <class T>
void add_rows(const RowBlock<T>& b) {
    constexpr std::int64_t kStrip = 1024;
    double sums[kStrip];
    for (std::int64_t j = 0; j < b.columns; j += kStrip) {
        const std::int64_t width = b.columns - j < kStrip ? b.columns - j : kStrip;
        for (std::int64_t i = 0; i < width; ++i) sums[i] = 0;
        for (std::int64_t k = 0; k < b.records; ++k) {
            const double w = b.weights[k];
            const T* const x = b.x + k * b.x_stride + j;
            if (!(b.steps[k] > 0) || w == 0) continue;
            for (std::int64_t i = 0; i < width; ++i)
                sums[i] += static_cast<double>(static_cast<std::int32_t>(static_cast<double>(x[i]) * w));
        }
        auto* const totals = reinterpret_cast<std::uint64_t*>(b.totals + j);
        for (std::int64_t i = 0; i < width; ++i) totals[i] += integer(sums[i]);
    }
}

}  // namespace

ForBothTypes<ProductKernels> product_kernels() {
    return {{&add<float>, &add_rows<float>}, {&add<double>, &add_rows<double>}};
}

void split_weights(const double* weights, std::int64_t outputs, std::int16_t* parts) {
    constexpr int kHalf = 1 << (kLowDigits - 1);
    for (std::int64_t o = 0; o < outputs; ++o, weights += kDenseBlock, parts += 2 * kProductRecords)
        for (std::int64_t k = 0; k < kDenseBlock; ++k) {
            const double up = weights[k] > -kLargestWeight ? weights[k] : -kLargestWeight;
            const auto w = static_cast<std::int32_t>(up < kLargestWeight ? up : kLargestWeight);
            const std::int32_t low = ((w + kHalf) & (2 * kHalf - 1)) - kHalf;
            parts[k] = static_cast<std::int16_t>(low);
            parts[kProductRecords + k] = static_cast<std::int16_t>((w - low) >> kLowDigits);
        }
}

}  // namespace tightdp::TIGHTDP_ISA
