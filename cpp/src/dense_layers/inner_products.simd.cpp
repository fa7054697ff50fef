// Computes inner products of rows of integers, for each record. A record passes a layer at several positions, and has a
// row for each position (docs/theory/exact-products.md, section 9). Rows of 16 bits whose squared norms are below 2^31
// have inner products of 32 bits. Other rows are multiplied in doubles. Both ways are exact, so they return the same
// numbers.
#include <type_traits>
#include <utility>

#include "word_pairs.hpp"
#include "layer_positions.simd.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// A tile has the inner products of kDown rows with kAcross = kInnerPositions rows. Twice as many sums would not fit in
// the registers.
#if defined(TIGHTDP_ISA_avx512)
constexpr int kDown = 4;
#else
constexpr int kDown = 2;
#endif
constexpr int kAcross = kInnerPositions, kShorts = 2 * kWords;

// Divides the lanes of a and of b into groups of `group` lanes, and adds the second half of each group to its first
// half. The result has the sums of a's groups, and then the sums of b's groups. Each group is then half as long.
template <int group, int... lane>
TIGHTDP_VINLINE Words add_inner_product_halves(Words a, Words b, std::integer_sequence<int, lane...>) {
    constexpr int half = group / 2;
    return __builtin_shufflevector(a, b, (lane / half * group + lane % half)...) +
           __builtin_shufflevector(a, b, (lane / half * group + lane % half + half)...);
}

// Returns the sums of all lanes of `count` vectors, each in kWords / count lanes.
template <int count>
TIGHTDP_VINLINE Words sum_inner_product_lanes(const Words* s) {
    if constexpr (count == 1)
        return *s;
    else
        return add_inner_product_halves<2 * kWords / count>(sum_inner_product_lanes<count / 2>(s),
                                                            sum_inner_product_lanes<count / 2>(s + count / 2),
                                                            std::make_integer_sequence<int, kWords>());
}

template <int... lane>
TIGHTDP_VINLINE Words transpose_inner_product_tile(Words tile, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(tile, tile, (lane % kDown * kAcross + lane / kDown)...);
}

// Computes the inner products of kDown rows at `left` with kAcross rows at `right`. The product of row i at `left` and
// row j at `right` is written to out[i][j] and to mirror[j][i].
TIGHTDP_VINLINE void multiply_position_tile(const std::int16_t* left, const std::int16_t* right, std::int64_t width,
                                            std::int32_t* out, std::int32_t* mirror) {
    Words s[kDown * kAcross] = {};
    for (std::int64_t j = 0; j < width; j += kShorts) {
        Words a[kDown], b[kAcross];
#pragma GCC unroll 4
        for (int i = 0; i < kDown; ++i) __builtin_memcpy(&a[i], left + i * width + j, sizeof a[i]);
#pragma GCC unroll 4
        for (int i = 0; i < kAcross; ++i) __builtin_memcpy(&b[i], right + i * width + j, sizeof b[i]);
#pragma GCC unroll 16
        for (int i = 0; i < kDown * kAcross; ++i) MultiplyAdd::add_part_pairs(s[i], a[i / kAcross], b[i % kAcross]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kDown * kAcross; i += kWords) {
        const Words sums = sum_inner_product_lanes<kWords>(s + i);
        __builtin_memcpy(out + i, &sums, sizeof sums);
        if constexpr (kWords == kDown * kAcross) {
            const Words mirrored = transpose_inner_product_tile(sums, std::make_integer_sequence<int, kWords>());
            __builtin_memcpy(mirror, &mirrored, sizeof mirrored);
        }
    }
    if constexpr (kWords != kDown * kAcross)
        for (int i = 0; i < kDown * kAcross; ++i) mirror[i % kAcross * kDown + i / kAcross] = out[i];
}

// Writes `count` integers as doubles.
template <int count>
TIGHTDP_VINLINE void store_inner_products(const std::int32_t* integers, double* out) {
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) out[i] = static_cast<double>(integers[i]);
}

// Tells whether the squared norm of a row of 16-bit integers is below 2^31. The function may also return false if the
// squared norm is just below 2^31. Each lane of floats adds at most 2^16 terms, so the relative error of the sum is
// below 2^-7. A term is the sum of two squares in 32 bits. The term overflows, and is then negative, only if both
// numbers are -2^15.
TIGHTDP_VINLINE bool has_short_position_norm(const std::int16_t* x, std::int64_t width) {
    using Floats = float __attribute__((vector_size(8 * kLanes)));
    if (width > std::int64_t{1} << 19) return false;
    Floats squares = {};
    Words signs = {};
    for (std::int64_t j = 0; j < width; j += kShorts) {
        Words a, pairs = {};
        __builtin_memcpy(&a, x + j, sizeof a);
        MultiplyAdd::add_part_pairs(pairs, a, a);
        signs |= pairs;
        squares += __builtin_convertvector(pairs, Floats);
    }
    double square = 0;
    std::int32_t sign = 0;
    for (int i = 0; i < kWords; ++i) {
        square += static_cast<double>(squares[i]);
        sign |= signs[i];
    }
    return sign >= 0 && square < 0x1p31 * (1 - 0x1p-7);
}

// Copies the rows of one record to the scratch memory. Returns false if they do not fit in 16 bits, or if a squared
// norm may be 2^31 or larger.
template <class Integer>
TIGHTDP_VINLINE bool copy_short_positions(const Integer* __restrict x, std::int64_t positions, std::int64_t columns,
                                          std::int16_t* __restrict out) {
    constexpr int kParts = 16;
    const std::int64_t width = pad_layer_length(columns, kInnerColumns);
    for (std::int64_t t = 0; t < pad_layer_length(positions, kInnerPositions); ++t, out += width) {
        const std::int64_t length = t < positions ? columns : 0, whole = length / kParts * kParts;
        std::int32_t lost[kParts] = {};
        const auto take = [&](std::int64_t j, int part) {
            out[j] = static_cast<std::int16_t>(x[j]);
            lost[part] |= x[j] ^ out[j];
        };
        for (std::int64_t j = 0; j < whole; j += kParts)
            for (int part = 0; part < kParts; ++part) take(j + part, part);
        for (std::int64_t j = whole; j < length; ++j) take(j, 0);
        for (std::int64_t j = length; j < width; ++j) out[j] = 0;
        for (int part = 0; part < kParts; ++part)
            if (lost[part]) return false;
        if (!has_short_position_norm(out, width)) return false;
        x += length;
    }
    return true;
}

// Returns the rows of one record in 16 bits, filled up with zeros, or null if an inner product may need more than 32
// bits. Rows that have this form already are not copied.
template <class Integer>
TIGHTDP_VINLINE const std::int16_t* find_short_positions(const InnerProducts<Integer>& p, const Integer* x) {
    if constexpr (std::is_same_v<Integer, std::int16_t>)
        if (p.columns % kInnerColumns == 0 && p.positions % kInnerPositions == 0) {
            for (std::int64_t t = 0; t < p.positions; ++t)
                if (!has_short_position_norm(x + t * p.columns, p.columns)) return nullptr;
            return x;
        }
    return copy_short_positions(x, p.positions, p.columns, p.scratch) ? p.scratch : nullptr;
}

// Multiplies the rows of one record in doubles.
template <class Integer>
void multiply_long_positions(const Integer* x, std::int64_t positions, std::int64_t columns, double* out) {
    constexpr int kParts = 16;
    for (std::int64_t s = 0; s < positions; ++s)
        for (std::int64_t t = 0; t <= s; ++t) {
            const Integer *const a = x + s * columns, *const b = x + t * columns;
            double sums[kParts] = {};
            std::int64_t j = 0;
            for (; j + kParts <= columns; j += kParts)
                for (int part = 0; part < kParts; ++part)
                    sums[part] += static_cast<double>(a[j + part]) * static_cast<double>(b[j + part]);
            for (; j < columns; ++j) sums[0] += static_cast<double>(a[j]) * static_cast<double>(b[j]);
            double sum = 0;
            for (const double part : sums) sum += part;
            out[s * positions + t] = out[t * positions + s] = sum;
        }
}

void multiply_short_positions(const std::int16_t* x, std::int64_t positions, std::int64_t columns, double* out) {
    const std::int64_t width = pad_layer_length(columns, kInnerColumns);
    alignas(64) std::int32_t tile[kDown * kAcross], mirror[kDown * kAcross];
    for (std::int64_t s = 0; s < positions; s += kDown)
        for (std::int64_t t = s / kAcross * kAcross; t < positions; t += kAcross) {
            multiply_position_tile(x + s * width, x + t * width, width, tile, mirror);
            if (s + kDown <= positions && t + kAcross <= positions) {
                for (std::int64_t i = 0; i < kDown; ++i)
                    store_inner_products<kAcross>(tile + i * kAcross, out + (s + i) * positions + t);
                for (std::int64_t j = 0; j < kAcross; ++j)
                    store_inner_products<kDown>(mirror + j * kDown, out + (t + j) * positions + s);
                continue;
            }
            for (std::int64_t i = 0; i < kDown && s + i < positions; ++i)
                for (std::int64_t j = 0; j < kAcross && t + j < positions; ++j)
                    out[(s + i) * positions + t + j] = out[(t + j) * positions + s + i] = tile[i * kAcross + j];
        }
}

template <class Integer>
void multiply_record_positions(const InnerProducts<Integer>& p) {
    for (std::int64_t k = 0; k < p.records; ++k) {
        const Integer* const x = p.x + k * p.positions * p.columns;
        double* const out = p.out + k * p.positions * p.positions;
        if (const std::int16_t* const rows = find_short_positions(p, x))
            multiply_short_positions(rows, p.positions, p.columns, out);
        else
            multiply_long_positions(x, p.positions, p.columns, out);
    }
}

}  // namespace

void short_inner_products(const InnerProducts<std::int16_t>& p) {
    multiply_record_positions(p);
}

void long_inner_products(const InnerProducts<std::int32_t>& p) {
    multiply_record_positions(p);
}

}  // namespace tightdp::TIGHTDP_ISA
