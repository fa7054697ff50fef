// Adds integer outer products w q^T by multiplications of 16-bit integers. If the sums over a block of records may
// exceed 32 bits, or if a weight of the block exceeds 16 bits, the weights of the block are split into two parts:
// w = 2^8 high + low (docs/theory/exact-products.md, section 8).
//
// One instruction multiplies the inputs of two records by their weights and adds both products. Both operands are
// therefore packed in pairs of records. Inputs are packed as [tile][pair][column]. A tile of weights has eight outputs,
// and a Block for each block of records.
#include "pack_integers.hpp"
#include "word_pairs.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

constexpr int kOutputs = 8, kColumns = 32, kRows = 8, kPairs = kDenseBlock / 2;
constexpr std::int32_t kLargestShort = 0x7fff;
constexpr double kMost32 = 0x7fffffff;
// Number of registers of neighbouring columns that are multiplied side by side. Each of the kRows = 8 rows of weights
// has its own sums, so two such registers need sixteen registers of sums. With more sums, GCC 12 keeps some in memory,
// which takes twice as long.
#if defined(TIGHTDP_ISA_avx512)
constexpr int kVecs = 2;
#else
constexpr int kVecs = 1;
#endif

// The packed weights of a tile and a block of records. If the block is short, rows[0][pair][output] has the weights of
// two records, and rows[1] is not used. Otherwise rows[half][pair] has four outputs, each as (low, high).
struct Block {
    // Upper bound on the sum over records of |w q|, for each output and column. If a weight exceeds 16 bits, `reach` is
    // 2 kMost32 instead. The block is short if `reach` is at most kMost32.
    double reach;
    std::uint32_t rows[2][kPairs][kRows];

    bool is_short_part_block() const noexcept { return reach <= kMost32; }
};

// Computes the sums over the records of `count` blocks, as an array [row][column]. The rows are those of
// Block::rows[half].
template <class Step>
TIGHTDP_VINLINE void sum_part_tile(const std::uint8_t* inputs, const Block* blocks, std::int64_t count, int half,
                              std::int32_t* sums) {
    for (int c = 0; c < kColumns; c += kVecs * kWords) {
        Words s[kRows][kVecs] = {};
        for (std::int64_t b = 0; b < count; ++b)
            for (std::int64_t k = 0; k < kPairs; ++k) {
                Words x[kVecs];
#pragma GCC unroll 2
                for (int v = 0; v < kVecs; ++v)
                    __builtin_memcpy(&x[v], inputs + 4 * ((b * kPairs + k) * kColumns + c + v * kWords), sizeof x[v]);
#pragma GCC unroll 8
                for (int i = 0; i < kRows; ++i) {
                    const Words w = static_cast<std::int32_t>(blocks[b].rows[half][k][i]) - Words{};
#pragma GCC unroll 2
                    for (int v = 0; v < kVecs; ++v) Step::add_part_pairs(s[i][v], x[v], w);
                }
            }
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
            for (int v = 0; v < kVecs; ++v)
                __builtin_memcpy(sums + i * kColumns + c + v * kWords, &s[i][v], sizeof s[i][v]);
    }
}

// Adds high[c] 2^8 + low[c], or low[c] if `high` is null, to the totals.
TIGHTDP_VINLINE void add_part_row(const std::int32_t* low, const std::int32_t* high, std::int64_t width,
                                  std::int64_t* out) {
    auto* const total = reinterpret_cast<std::uint64_t*>(out);
    if (high)
        for (std::int64_t c = 0; c < width; ++c)
            total[c] += static_cast<std::uint64_t>(std::int64_t{high[c]} * 256 + low[c]);
    else
        for (std::int64_t c = 0; c < width; ++c) total[c] += static_cast<std::uint64_t>(std::int64_t{low[c]});
}

// Adds the sums of sum_part_tile for `outputs` outputs to the totals at `out`. `parts` is the number of rows of an
// output: 2 if its weights are split into low and high parts, and 1 otherwise.
template <int parts>
TIGHTDP_VINLINE void add_part_sums(const std::int32_t* sums, std::int64_t outputs, std::int64_t columns,
                                   std::int64_t* out, std::int64_t stride) {
    for (std::int64_t i = 0; i < outputs; ++i, sums += parts * kColumns, out += stride) {
        const std::int32_t* const high = parts == 2 ? sums + kColumns : nullptr;
        if (columns >= kColumns)
            add_part_row(sums, high, kColumns, out);
        else
            add_part_row(sums, high, columns, out);
    }
}

// Returns the length of the run of blocks, from the first of `count` blocks on, whose sums are added in 32 bits before
// they are added to the totals. Either all blocks of the run are short, or none is.
TIGHTDP_VINLINE std::int64_t count_part_run(const Block* blocks, std::int64_t count, std::int64_t limit) {
    std::int64_t n = 1;
    if (!blocks->is_short_part_block()) {
        while (n < count && n < limit && !blocks[n].is_short_part_block()) ++n;
        return n;
    }
    for (double reach = blocks->reach; n < count && (reach += blocks[n].reach) <= kMost32;) ++n;
    return n;
}

template <class Step>
void add_part_product(const PackedProduct& p) {
    alignas(64) std::int32_t sums[kRows * kColumns];
    const std::int64_t count = p.records / kDenseBlock, limit = p.limit / kDenseBlock;
    for (std::int64_t j = 0; j < p.columns; j += kColumns)
        for (std::int64_t o = 0; o < p.outputs; o += kOutputs) {
            prefetch_product_totals(p, o, j, kOutputs, kColumns);
            const auto* blocks = reinterpret_cast<const Block*>(p.weights) + o / kOutputs * count;
            const std::uint8_t* inputs = p.inputs + 2 * j * p.records;
            const std::int64_t outputs = p.outputs - o < kOutputs ? p.outputs - o : kOutputs, columns = p.columns - j;
            std::int64_t* const out = p.sums + o * p.stride + j;
            for (std::int64_t left = count, run; left > 0; left -= run) {
                run = count_part_run(blocks, left, limit);
                if (blocks->is_short_part_block()) {
                    sum_part_tile<Step>(inputs, blocks, run, 0, sums);
                    add_part_sums<1>(sums, outputs, columns, out, p.stride);
                } else {
                    for (std::int64_t half = 0; 4 * half < outputs; ++half) {
                        sum_part_tile<Step>(inputs, blocks, run, static_cast<int>(half), sums);
                        add_part_sums<2>(sums, outputs - 4 * half < 4 ? outputs - 4 * half : 4, columns,
                                    out + 4 * half * p.stride, p.stride);
                    }
                }
                blocks += run;
                inputs += run * kPairs * kColumns * 4;
            }
        }
}

TIGHTDP_VINLINE std::uint32_t join_part_words(std::int32_t first, std::int32_t second) {
    return (static_cast<std::uint32_t>(first) & 0xffff) | static_cast<std::uint32_t>(second) << 16;
}

// Returns the larger one of `most` and |x|.
TIGHTDP_VINLINE std::int32_t larger_part_size(std::int32_t most, std::int32_t x) {
    const std::int32_t size = x < 0 ? -x : x;
    return most > size ? most : size;
}

// Confines the weights of one output to kLargestWeight. Returns the sum over records of |w| times the largest |q|,
// which is exact, because its terms are 64 integers below 2^38.
TIGHTDP_VINLINE double confine_part_product_weights(const double* w, const LargestInputs& largest,
                                                    std::int32_t* integers) {
    Vec reach{};
    for (std::int64_t k = 0; k < kDenseBlock; k += kLanes)
        reach += min(abs(load(w + k)), splat(kLargestWeight)) * load(largest + k);
    for (std::int64_t k = 0; k < kDenseBlock; ++k) integers[k] = confine_packed_weight(w[k]);
    double total = 0;
    for (int l = 0; l < kLanes; ++l) total += reach[l];
    return total;
}

// Splits the weights of two records into low and high parts, and writes both pairs.
TIGHTDP_VINLINE void split_part_product_pair(std::int32_t first, std::int32_t second, std::uint32_t* parts) {
    parts[0] = join_part_words(low_digit(first), low_digit(second));
    parts[1] = join_part_words(without_low_digit(first), without_low_digit(second));
}

// Packs the weights of one tile, `outputs` rows of kDenseBlock numbers. Missing outputs have zeros.
TIGHTDP_VINLINE void pack_part_tile(const double* w, std::int64_t outputs, const LargestInputs& largest, Block& block) {
    std::int32_t integers[kOutputs][kDenseBlock] = {};
    std::int32_t most = 0;
    block.reach = 0;
    for (std::int64_t i = 0; i < outputs; ++i) {
        const double reach = confine_part_product_weights(w + i * kDenseBlock, largest, integers[i]);
        block.reach = block.reach > reach ? block.reach : reach;
        for (const std::int32_t x : integers[i]) most = larger_part_size(most, x);
    }
    if (most > kLargestShort) block.reach = 2 * kMost32;
    if (block.is_short_part_block()) {
        for (std::int64_t k = 0; k < kPairs; ++k)
            for (int i = 0; i < kOutputs; ++i)
                block.rows[0][k][i] = join_part_words(integers[i][2 * k], integers[i][2 * k + 1]);
        return;
    }
    for (int i = 0; i < kOutputs; ++i)
        for (std::int64_t k = 0; k < kPairs; ++k)
            split_part_product_pair(integers[i][2 * k], integers[i][2 * k + 1], block.rows[i / 4][k] + i % 4 * 2);
}

void pack_part_weights(const double* w, std::int64_t outputs, const LargestInputs& largest, PackedPlace place) {
    auto* const blocks = reinterpret_cast<Block*>(place.first) + place.at / kDenseBlock;
    for (std::int64_t o = 0; o < outputs; o += kOutputs)
        pack_part_tile(w + o * kDenseBlock, outputs - o < kOutputs ? outputs - o : kOutputs, largest,
                  blocks[o / kOutputs * (place.records / kDenseBlock)]);
}

using EightIntegers = std::int32_t __attribute__((vector_size(4 * kOutputs)));
using EightDoubles = double __attribute__((vector_size(8 * kOutputs)));

// Returns the first `outputs` weights of record k, confined to kLargestWeight, and zeros for missing ones.
TIGHTDP_VINLINE EightIntegers load_part_product_weights(const std::int32_t* w, std::int64_t stride, std::int64_t k,
                                                        std::int64_t count, std::int64_t outputs) {
    constexpr std::int32_t most = kLargestWeight;
    EightIntegers x{};
    if (k < count && outputs == kOutputs)
        __builtin_memcpy(&x, w + k * stride, sizeof x);
    else
        for (std::int64_t i = 0; k < count && i < outputs; ++i) x[i] = w[k * stride + i];
    x = x > -most ? x : -most - EightIntegers{};
    return x < most ? x : most - EightIntegers{};
}

// Packs the weights of one tile, the first `outputs` of each row. Missing outputs and records have zeros.
TIGHTDP_VINLINE void pack_part_product_tile_of_rows(const std::int32_t* w, std::int64_t stride, std::int64_t count,
                                                    std::int64_t outputs, const LargestInputs& largest, Block& block) {
    EightDoubles reach{};
    EightIntegers sizes{};
    for (std::int64_t k = 0; k < kDenseBlock; k += 2) {
        const EightIntegers x[2] = {load_part_product_weights(w, stride, k, count, outputs),
                                    load_part_product_weights(w, stride, k + 1, count, outputs)};
        for (int r = 0; r < 2; ++r) {
            const EightIntegers size = x[r] < 0 ? -x[r] : x[r];
            sizes |= size;
            reach += __builtin_convertvector(size, EightDoubles) * largest[k + r];
        }
        const EightIntegers both = (x[0] & 0xffff) | x[1] << 16;
        __builtin_memcpy(block.rows[0][k / 2], &both, sizeof both);
    }
    block.reach = 0;
    for (int i = 0; i < kOutputs; ++i) {
        block.reach = block.reach > reach[i] ? block.reach : reach[i];
        if (sizes[i] > kLargestShort) block.reach = 2 * kMost32;
    }
    if (block.is_short_part_block()) return;
    for (std::int64_t k = 0; k < kPairs; ++k) {
        const EightIntegers first = load_part_product_weights(w, stride, 2 * k, count, outputs),
                            second = load_part_product_weights(w, stride, 2 * k + 1, count, outputs);
        for (int i = 0; i < kOutputs; ++i)
            split_part_product_pair(first[i], second[i], block.rows[i / 4][k] + i % 4 * 2);
    }
}

void pack_weight_rows(const WeightRows& r, const LargestInputs& largest, PackedPlace place) {
    auto* const blocks = reinterpret_cast<Block*>(place.first) + place.at / kDenseBlock;
    for (std::int64_t o = 0; o < r.outputs; o += kOutputs)
        pack_part_product_tile_of_rows(r.w + o, r.outputs, r.count, r.outputs - o < kOutputs ? r.outputs - o : kOutputs,
                                       largest, blocks[o / kOutputs * (place.records / kDenseBlock)]);
}

template <class T>
void pack_part_inputs(const InputBlock<T>& b, PackedPlace place, LargestInputs& largest) {
    std::int32_t first[kColumns], second[kColumns];
    for (std::int64_t k = 0; k < kDenseBlock; k += 2) {
        std::int32_t most[2][kColumns] = {};
        for (std::int64_t j = 0; j < b.columns; j += kColumns) {
            round_packed_row<kColumns>(b, k, j, first);
            round_packed_row<kColumns>(b, k + 1, j, second);
            std::uint32_t both[kColumns];
            for (int i = 0; i < kColumns; ++i) {
                both[i] = join_part_words(first[i], second[i]);
                most[0][i] = larger_part_size(most[0][i], first[i]);
                most[1][i] = larger_part_size(most[1][i], second[i]);
            }
            __builtin_memcpy(place.first + 2 * (j * place.records + (place.at + k) * kColumns), both, sizeof both);
        }
        for (int i = 0; i < 2; ++i) {
            std::int32_t top = 0;
            for (const std::int32_t x : most[i]) top = top > x ? top : x;
            largest[k + i] = top;
        }
    }
}

template <class Step>
ProductWay make_part_product_way(const char* name) {
    return {name,
            kOutputs,
            kColumns,
            static_cast<std::int64_t>(sizeof(Block)),
            true,
            &pack_part_weights,
            &pack_weight_rows,
            &pack_part_inputs<float>,
            &pack_part_inputs<double>,
            &pack_part_inputs<std::int16_t>,
            &add_part_product<Step>};
}

}  // namespace

ProductWay multiply_add_product_way() {
#if defined(TIGHTDP_ISA_avx512)
    return make_part_product_way<MultiplyAdd>("avx512");
#elif defined(TIGHTDP_ISA_avx2)
    return make_part_product_way<MultiplyAdd>("avx2");
#else
    return make_part_product_way<MultiplyAdd>("baseline");
#endif
}

ProductWay dot_product_way() {
#if defined(TIGHTDP_ISA_avx512)
    return make_part_product_way<DotProduct>("avx512-vnni");
#elif defined(TIGHTDP_ISA_avx2)
    return make_part_product_way<DotProduct>("avx-vnni");
#else
    return {};
#endif
}

}  // namespace tightdp::TIGHTDP_ISA
