// Adds integer outer products w q^T. Each weight w is split into w = 2^8 high + low, where 16 bits hold each of the two
// parts (docs/theory/exact-products.md, section 8).
//
// One instruction multiplies the inputs of two records by their weights and adds both products. Both operands are
// therefore packed in pairs of records. Inputs are packed as [tile][pair][column], and weights as
// [tile][pair][output][low, high].
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "pack.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

constexpr int kOutputs = 4, kColumns = 32, kParts = 2 * kOutputs;
constexpr int kWords = 2 * kLanes;
using Words = std::int32_t __attribute__((vector_size(8 * kLanes)));
// Number of registers that hold neighbouring columns. Each of four outputs has two parts, so two such registers need
// sixteen registers of sums. With more sums, GCC 12 keeps some in memory, which takes twice as long.
#if defined(TIGHTDP_ISA_avx512)
constexpr int kVecs = 2;
#else
constexpr int kVecs = 1;
#endif

// Adds x0 w0 + x1 w1 to s in each lane of 32 bits, where x0 is the lower half of x and x1 the upper half.
struct MultiplyAdd {
    TIGHTDP_VINLINE void add(Words& s, Words x, Words w) {
#if defined(TIGHTDP_ISA_avx512)
        s += (Words)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#elif defined(TIGHTDP_ISA_avx2)
        s += (Words)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif defined(__SSE2__)
        s += (Words)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
        s += (x >> 16) * (w >> 16) + ((x << 16) >> 16) * ((w << 16) >> 16);
#endif
    }
};

// Adds the same products as MultiplyAdd, in one instruction of the extension VNNI. The instruction is written in
// assembler, so that the compiler may not use the extension elsewhere in this file. Processors without the extension
// use MultiplyAdd.
struct DotProduct {
    TIGHTDP_VINLINE void add([[maybe_unused]] Words& s, [[maybe_unused]] Words x, [[maybe_unused]] Words w) {
#if defined(TIGHTDP_ISA_avx512)
        asm("vpdpwssd %2, %1, %0" : "+v"(s) : "v"(x), "v"(w));
#elif defined(TIGHTDP_ISA_avx2)
        asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(s) : "x"(x), "x"(w));
#endif
    }
};

// Computes the sums of a tile over `pairs` pairs of records, as an array [output][low, high][column].
template <class Step>
TIGHTDP_VINLINE void sum_tile(const std::uint8_t* inputs, const std::uint8_t* weights, std::int64_t pairs,
                              std::int32_t* sums) {
    for (int c = 0; c < kColumns; c += kVecs * kWords) {
        Words s[kParts][kVecs] = {};
        for (std::int64_t k = 0; k < pairs; ++k) {
            Words x[kVecs];
#pragma GCC unroll 2
            for (int v = 0; v < kVecs; ++v)
                __builtin_memcpy(&x[v], inputs + 4 * (k * kColumns + c + v * kWords), sizeof x[v]);
#pragma GCC unroll 8
            for (int i = 0; i < kParts; ++i) {
                std::int32_t both;
                __builtin_memcpy(&both, weights + 4 * (k * kParts + i), sizeof both);
                const Words w = both - Words{};
#pragma GCC unroll 2
                for (int v = 0; v < kVecs; ++v) Step::add(s[i][v], x[v], w);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < kParts; ++i)
#pragma GCC unroll 2
            for (int v = 0; v < kVecs; ++v)
                __builtin_memcpy(sums + i * kColumns + c + v * kWords, &s[i][v], sizeof s[i][v]);
    }
}

TIGHTDP_VINLINE void add_parts(const std::int32_t* low, const std::int32_t* high, std::int64_t width,
                               std::int64_t* out) {
    auto* const total = reinterpret_cast<std::uint64_t*>(out);
    for (std::int64_t c = 0; c < width; ++c)
        total[c] += static_cast<std::uint64_t>(std::int64_t{high[c]} * 256 + low[c]);
}

template <class Step>
void add(const PackedProduct& p) {
    alignas(64) std::int32_t sums[kParts * kColumns];
    for (std::int64_t j = 0; j < p.columns; j += kColumns)
        for (std::int64_t o = 0; o < p.outputs; o += kOutputs) {
            prefetch_totals(p, o, j, kOutputs, kColumns);
            for (std::int64_t k = 0; k < p.records; k += p.limit) {
                const std::int64_t pairs = (p.records - k < p.limit ? p.records - k : p.limit) / 2;
                sum_tile<Step>(p.inputs + 2 * (j * p.records + k * kColumns),
                               p.weights + 4 * (o * p.records + k * kOutputs), pairs, sums);
                for (std::int64_t i = 0; i < kOutputs && o + i < p.outputs; ++i) {
                    const std::int32_t* const low = sums + 2 * i * kColumns;
                    std::int64_t* const out = p.sums + (o + i) * p.stride + j;
                    if (p.columns - j >= kColumns)
                        add_parts(low, low + kColumns, kColumns, out);
                    else
                        add_parts(low, low + kColumns, p.columns - j, out);
                }
            }
        }
}

void pack_weights(const double* w, std::int64_t outputs, PackedPlace place) {
    for (std::int64_t o = 0; o < outputs; o += kOutputs) {
        std::uint8_t* const tile = place.first + 4 * (o * place.records + place.at * kOutputs);
        for (std::int64_t i = 0; i < kOutputs; ++i) {
            std::int32_t low[kDenseBlock], high[kDenseBlock];
            for (std::int64_t k = 0; k < kDenseBlock; ++k) {
                const std::int32_t integer = o + i < outputs ? confine_weight(w[(o + i) * kDenseBlock + k]) : 0;
                low[k] = low_digit(integer) & 0xffff;
                high[k] = without_low_digit(integer) & 0xffff;
            }
            for (std::int64_t k = 0; k < kDenseBlock / 2; ++k) {
                const std::uint32_t parts[2] = {
                    static_cast<std::uint32_t>(low[2 * k]) | static_cast<std::uint32_t>(low[2 * k + 1]) << 16,
                    static_cast<std::uint32_t>(high[2 * k]) | static_cast<std::uint32_t>(high[2 * k + 1]) << 16};
                __builtin_memcpy(tile + 4 * (k * kParts + 2 * i), parts, sizeof parts);
            }
        }
    }
}

template <class T>
void pack_inputs(const InputBlock<T>& b, PackedPlace place) {
    std::int32_t first[kColumns], second[kColumns];
    for (std::int64_t k = 0; k < kDenseBlock; k += 2)
        for (std::int64_t j = 0; j < b.columns; j += kColumns) {
            row_integers<kColumns>(b, k, j, first);
            row_integers<kColumns>(b, k + 1, j, second);
            std::uint32_t both[kColumns];
            for (int i = 0; i < kColumns; ++i)
                both[i] = (static_cast<std::uint32_t>(first[i]) & 0xffff) | static_cast<std::uint32_t>(second[i]) << 16;
            __builtin_memcpy(place.first + 2 * (j * place.records + (place.at + k) * kColumns), both, sizeof both);
        }
}

template <class Step>
ProductWay way(const char* name) {
    return {name,
            kOutputs,
            kColumns,
            4,
            true,
            &pack_weights,
            &pack_inputs<float>,
            &pack_inputs<double>,
            &pack_inputs<std::int16_t>,
            &add<Step>};
}

}  // namespace

ProductWay multiply_add_way() {
#if defined(TIGHTDP_ISA_avx512)
    return way<MultiplyAdd>("avx512");
#elif defined(TIGHTDP_ISA_avx2)
    return way<MultiplyAdd>("avx2");
#else
    return way<MultiplyAdd>("baseline");
#endif
}

ProductWay dot_product_way() {
#if defined(TIGHTDP_ISA_avx512)
    return way<DotProduct>("avx512-vnni");
#elif defined(TIGHTDP_ISA_avx2)
    return way<DotProduct>("avx-vnni");
#else
    return {};
#endif
}

}  // namespace tightdp::TIGHTDP_ISA
