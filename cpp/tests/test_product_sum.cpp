// dense/product_sum.simd.hpp: every copy of the kernels against the definition.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.hpp"
#include "dense/product_sum.simd.hpp"

using namespace tightdp;

namespace {

struct Problem {
    std::int64_t records, columns, outputs;
    std::vector<float> x;
    std::vector<double> steps, weights;  // weights: [outputs][records]
};

Problem problem(std::int64_t records, std::int64_t columns, std::int64_t outputs) {
    std::mt19937_64 random(static_cast<std::uint64_t>(records + 1000 * columns + outputs));
    std::uniform_int_distribution<int> entry(-40000, 40000), weight(-(1 << 14), 1 << 14);
    Problem p{records, columns, outputs, {}, {}, {}};
    for (std::int64_t i = 0; i < records * columns; ++i) p.x.push_back(static_cast<float>(entry(random)) / 3);
    for (std::int64_t k = 0; k < records; ++k)
        p.steps.push_back(k % 7 == 3 ? 0.0 : 4.0 / static_cast<double>(1 + k % 2));
    for (std::int64_t i = 0; i < outputs * records; ++i)
        p.weights.push_back(weight(random) / (outputs == 1 ? 7.0 : 1.0));
    return p;
}

// Returns the number that entry j of record k adds to an output.
double added(const Problem& p, std::int64_t k, std::int64_t j, double w) {
    const double x = static_cast<double>(p.x[static_cast<std::size_t>(k * p.columns + j)]),
                 step = p.steps[static_cast<std::size_t>(k)];
    if (p.outputs == 1) return step > 0 ? std::trunc(w * x) : 0.0;
    return w * std::clamp(std::nearbyint(x * step), -kLargestEntry, kLargestEntry);
}

// The sums of the kernels minus those of the definition, on totals that begin with 7.
std::int64_t difference(const Problem& p, const ProductKernels<float>& kernels,
                        decltype(&baseline::split_weights) split) {
    std::vector<std::int64_t> totals(static_cast<std::size_t>(p.outputs * p.columns), 7);
    const std::int64_t blocks = (p.records + kDenseBlock - 1) / kDenseBlock;
    if (p.outputs > 1) {
        const std::int64_t tiles = (p.outputs + kProductOutputs - 1) / kProductOutputs;
        std::vector<std::int16_t> parts(static_cast<std::size_t>(tiles * kProductOutputs * 2 * kProductRecords));
        for (std::int64_t b = 0; b < blocks; ++b) {
            std::vector<double> w(static_cast<std::size_t>(p.outputs * kDenseBlock));
            for (std::int64_t o = 0; o < p.outputs; ++o)
                for (std::int64_t k = b * kDenseBlock; k < std::min(p.records, (b + 1) * kDenseBlock); ++k)
                    w[static_cast<std::size_t>(o * kDenseBlock + k % kDenseBlock)] =
                        p.weights[static_cast<std::size_t>(o * p.records + k)];
            split(w.data(), p.outputs, parts.data() + b * kDenseBlock);
        }
        std::vector<std::int32_t> pairs(static_cast<std::size_t>((p.columns + kProductColumns) * kProductRecords / 2));
        kernels.add({p.x.data(), p.columns, p.records, p.columns, p.steps.data(), parts.data(), p.outputs, pairs.data(),
                     totals.data(), p.columns});
    } else {
        kernels.add_rows(
            {p.x.data(), p.columns, p.records, p.columns, p.steps.data(), p.weights.data(), totals.data()});
    }
    std::int64_t worst = 0;
    for (std::int64_t o = 0; o < p.outputs; ++o)
        for (std::int64_t j = 0; j < p.columns; ++j) {
            double expected = 7;
            for (std::int64_t k = 0; k < p.records; ++k)
                expected += added(p, k, j, p.weights[static_cast<std::size_t>(o * p.records + k)]);
            const std::int64_t found = totals[static_cast<std::size_t>(o * p.columns + j)];
            worst = std::max(worst, std::abs(found - static_cast<std::int64_t>(expected)));
        }
    return worst;
}

void all(std::int64_t records, std::int64_t columns, std::int64_t outputs) {
    const Problem p = problem(records, columns, outputs);
    CHECK(difference(p, baseline::product_kernels().of<float>(), &baseline::split_weights) == 0);
#if defined(TIGHTDP_X86_DISPATCH)
    if (active_isa() >= Isa::avx2) CHECK(difference(p, avx2::product_kernels().of<float>(), &avx2::split_weights) == 0);
    if (active_isa() >= Isa::avx512) {
        CHECK(difference(p, avx512::product_kernels().of<float>(), &avx512::split_weights) == 0);
    }
#endif
}

}  // namespace

int main() {
    for (const std::int64_t records : {1, 2, 65, 255, 256})
        for (const std::int64_t columns : {1, 31, 32, 100, 1030})
            for (const std::int64_t outputs : {1, 2, 4, 9}) all(records, columns, outputs);
    return check::failures;
}
