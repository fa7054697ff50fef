// Tests dense_layers/product_way.hpp and dense_layers/product_sum.hpp. A way is an implementation for certain
// instructions. Each way, and the loop for layers with one output, is compared with plain arithmetic.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "dense_layers/product_sum.hpp"
#include "dense_layers/product_way.hpp"

using namespace tightdp;

namespace {

struct Integers {
    std::int64_t rows, outputs, columns;
    std::vector<std::int32_t> w;
    std::vector<std::int16_t> q;
};

// Makes operands whose entries are chosen at random among the given values.
template <class Values>
Integers integers(std::int64_t rows, std::int64_t outputs, std::int64_t columns, const Values& weights,
                  const std::vector<std::int16_t>& inputs) {
    std::mt19937 random(static_cast<std::uint32_t>(rows + 31 * outputs + 977 * columns));
    Integers p{rows, outputs, columns, {}, {}};
    for (std::int64_t i = 0; i < rows * outputs; ++i) p.w.push_back(weights[random() % weights.size()]);
    for (std::int64_t i = 0; i < rows * columns; ++i) p.q.push_back(inputs[random() % inputs.size()]);
    return p;
}

std::vector<std::int64_t> by_definition(const Integers& p) {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(p.outputs * p.columns), 7);
    for (std::int64_t k = 0; k < p.rows; ++k)
        for (std::int64_t o = 0; o < p.outputs; ++o)
            for (std::int64_t j = 0; j < p.columns; ++j)
                sums[o * p.columns + j] += std::int64_t{p.w[k * p.outputs + o]} * p.q[k * p.columns + j];
    return sums;
}

// Tests each way with the integers `p`. No product of a weight and an input is larger in magnitude than `largest`.
void check_ways(const Integers& p, double largest) {
    const auto expected = by_definition(p);
    for (int i = 0; product_way(i); ++i) {
        choose_product_way(i);
        std::vector<std::int64_t> sums(expected.size(), 7);
        add_integer_product({p.w.data(), p.q.data(), p.rows, p.outputs, p.columns, largest, sums.data()});
        CHECK(sums == expected);
    }
    choose_product_way(-1);
}

constexpr std::int32_t kW = kLargestWeight;
constexpr std::int16_t kQ = kLargestEntry;

void odd_shapes() {
    // The weights include the smallest and the largest digits, and the values at which a digit carries.
    const std::vector<std::int32_t> weights{0,   1,     -1,    127,   128,    -128,   -129,   255,
                                            256, 32767, 32768, 32895, -32768, -32896, 131071, -131072};
    const std::vector<std::int16_t> inputs{0, 1, -1, 127, 128, -128, -129, kQ, -kQ, 16384, -16384};
    for (const std::int64_t rows : {1, 2, 63, 64, 65, 129, 450})
        for (const std::int64_t outputs : {1, 3, 4, 5, 16, 17, 33})
            for (const std::int64_t columns : {1, 15, 16, 31, 33, 70})
                check_ways(integers(rows, outputs, columns, weights, inputs), kLargestIntegerProduct);
}

// Tests numbers of rows around the largest number whose sums fit in 32 bits. Ways split a weight into two parts of 16
// bits or three digits of 8 bits, and the sums of both are as large as possible.
void ends_of_32_bits() {
    for (const std::int64_t rows : {447, 448, 449, 512, 1024})
        for (const int sign : {1, -1}) {
            const auto w = static_cast<std::int32_t>(0x1p30 / kQ);  // |w q| <= 2^30
            const std::int32_t low = w / 256 * 256 - 128;           // the lowest digit is -128
            for (const std::int32_t weight : {w, low})
                check_ways(integers(rows, 2, 3, std::vector{sign * weight}, {kQ}), 0x1p30);
        }
}

// Tests blocks of 64 records at the limits up to which a way need not split weights. The limits are weights of 16 bits,
// and sums of absolute products below 2^31. All products have the same sign, so that the sums are as large as possible.
void blocks_at_the_limits() {
    struct Case {
        std::int32_t weight;
        std::int16_t input;
    };
    for (const auto [weight, input] : {Case{2048, 16383}, Case{2048, 16384}, Case{1024, 16383}, Case{1024, 16384},
                                       Case{32767, 1023}, Case{32767, 1024}, Case{32768, 1}, Case{-32768, -1}})
        for (const std::int64_t rows : {64, 128, 192, 200})
            for (const std::int32_t sign : {1, -1}) {
                Integers p = integers(rows, 11, 35, std::vector{sign * weight}, {input});
                check_ways(p, kLargestIntegerProduct);
                // A block with a larger weight lies between others.
                if (rows >= 128) p.w[64 * p.outputs + 9] = sign * 131071;
                check_ways(p, kLargestIntegerProduct);
            }
}

// Tests the ways that use digits. 65,472 records are the limit for 32-bit sums of products of digits, and more records
// are tested too.
void ends_of_digits() {
    for (int i = 0; product_way(i); ++i) {
        const ProductWay& way = *product_way(i);
        if (way.parts) continue;
        CHECK(way.limit_product_records(0x1p60) == 65472);
        // Every digit of the first w but the highest is -128, and the lowest digit of q is -128. This gives the largest
        // possible sums.
        for (const std::int32_t w : {-126 * 65536 - 128 * 256 - 128, -kW, kW})
            for (const std::int64_t rows : {65472, 65473, 131100}) {
                const Integers p = integers(rows, 1, 2, std::vector{w}, {static_cast<std::int16_t>(-126 * 256 - 128)});
                std::vector<std::int64_t> sums(2, 7);
                choose_product_way(i);
                // One chunk holds all records, so that the totals in 64 bits are updated only at the limit.
                add_integer_product({p.w.data(), p.q.data(), p.rows, 1, 2, 0x1p60, sums.data()});
                CHECK(sums == by_definition(p));
            }
    }
    choose_product_way(-1);
}

// Tests the limits of the ways that use parts, which follow from the largest weights and inputs.
void limits() {
    for (int i = 0; product_way(i); ++i) {
        const ProductWay& way = *product_way(i);
        CHECK(way.limit_product_records(kLargestProductBound) >= 448 &&
              way.limit_product_records(kLargestIntegerProduct) >= kDenseBlock);
        if (!way.parts) continue;
        for (const double largest : {0x1p20, 0x1p28, 0x1p30, 0x1p32}) {
            const double low = 128.0 * kQ, high = (largest + low) / 256;
            CHECK(static_cast<double>(way.limit_product_records(largest)) * std::max(low, high) < 0x1p31);
        }
    }
}

struct Rows {
    std::int64_t records, columns;
    std::vector<float> x;
    std::vector<double> rounding_factors, weights;
};

std::int64_t rows_difference(const Rows& p, const RowSum<float>& kernel) {
    std::vector<std::int64_t> totals(static_cast<std::size_t>(p.columns), 7);
    kernel.add(
        {p.x.data(), p.columns, p.records, p.columns, p.rounding_factors.data(), p.weights.data(), totals.data()});
    std::int64_t worst = 0;
    for (std::int64_t j = 0; j < p.columns; ++j) {
        double expected = 7;
        for (std::int64_t k = 0; k < p.records; ++k)
            if (p.rounding_factors[k] > 0)
                expected += std::trunc(p.weights[k] * static_cast<double>(p.x[k * p.columns + j]));
        worst = std::max(worst, std::abs(totals[j] - static_cast<std::int64_t>(expected)));
    }
    return worst;
}

void single_rows(std::int64_t records, std::int64_t columns) {
    std::mt19937_64 random(static_cast<std::uint64_t>(records + 1000 * columns));
    std::uniform_int_distribution<int> entry(-40000, 40000), weight(-(1 << 14), 1 << 14);
    Rows p{records, columns, {}, {}, {}};
    for (std::int64_t i = 0; i < records * columns; ++i) p.x.push_back(static_cast<float>(entry(random)) / 3);
    for (std::int64_t k = 0; k < records; ++k) {
        p.rounding_factors.push_back(k % 7 == 3 ? 0.0 : 1.0);
        p.weights.push_back(weight(random) / 7.0);
    }
    CHECK(rows_difference(p, baseline::layer_row_sum().of<float>()) == 0);
#if defined(TIGHTDP_X86_DISPATCH)
    if (active_isa() >= Isa::avx2) CHECK(rows_difference(p, avx2::layer_row_sum().of<float>()) == 0);
    if (active_isa() >= Isa::avx512) CHECK(rows_difference(p, avx512::layer_row_sum().of<float>()) == 0);
#endif
}

}  // namespace

int main() {
    odd_shapes();
    ends_of_32_bits();
    blocks_at_the_limits();
    ends_of_digits();
    limits();
    for (const std::int64_t records : {1, 2, 65, 256, 1000})
        for (const std::int64_t columns : {1, 31, 100, 1030}) single_rows(records, columns);
    return check::failures;
}
