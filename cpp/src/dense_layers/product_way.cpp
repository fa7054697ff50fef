#include "product_way.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

#include "runtime/per_process.hpp"
#include "runtime/system.hpp"

#if defined(TIGHTDP_X86_DISPATCH)
#include <cpuid.h>
#endif

namespace tightdp {
namespace {

constexpr double kMost32 = 0x7fffffff;

#if defined(TIGHTDP_X86_DISPATCH)
// Returns bit `bit` of a register of leaf 7 of cpuid. `which` is 0 for eax, 1 for ebx, 2 for ecx, and 3 for edx.
bool read_product_way_cpuid_bit(unsigned subleaf, int which, int bit) noexcept {
    unsigned r[4];
    return __get_cpuid_count(7, subleaf, &r[0], &r[1], &r[2], &r[3]) && (r[which] >> bit & 1);
}
#endif

class Ways {
  public:
    Ways() {
        add_product_way(TIGHTDP_SELECT_SIMD(multiply_add_product_way)());
#if defined(TIGHTDP_X86_DISPATCH)
        const bool vnni = active_isa() == Isa::avx512
                              ? read_product_way_cpuid_bit(0, 2, 11)
                              : active_isa() == Isa::avx2 && read_product_way_cpuid_bit(1, 0, 4);
        if (vnni) add_product_way(TIGHTDP_SELECT_SIMD(dot_product_way)());
        if (active_isa() == Isa::avx512 && read_product_way_cpuid_bit(0, 3, 24) &&
            read_product_way_cpuid_bit(0, 3, 25) && system::grant_tiles())
            add_product_way(TIGHTDP_SELECT_SIMD(tile_product_way)());
#endif
        tried_ = count_;
        add_product_way(TIGHTDP_SELECT_SIMD(plain_tile_product_way)());
    }

    const ProductWay* find_product_way(int number) const noexcept {
        return number >= 0 && number < count_ ? &ways_[number] : nullptr;
    }

    const ProductWay& find_serving_product_way() {
        int number = serving_.load(std::memory_order_relaxed);
        if (number < 0) serving_.store(number = find_fastest_product_way(), std::memory_order_relaxed);
        return ways_[number];
    }

    void choose_serving_way(int number) noexcept {
        serving_.store(find_product_way(number) ? number : -1, std::memory_order_relaxed);
    }

  private:
    void add_product_way(const ProductWay& way) noexcept { ways_[count_++] = way; }

    // Returns the number of the way that computes a small product fastest. The product takes some 20
    // microseconds.
    int find_fastest_product_way() const {
        if (tried_ == 1) return 0;
        std::vector<std::int64_t> times(static_cast<std::size_t>(tried_), std::numeric_limits<std::int64_t>::max());
        for (int round = 0; round < 4; ++round)
            for (int i = 0; i < tried_; ++i) times[i] = std::min(times[i], time_product_way(ways_[i]));
        return static_cast<int>(std::min_element(times.begin(), times.end()) - times.begin());
    }

    static std::int64_t time_product_way(const ProductWay& way) {
        constexpr std::int64_t kRecords = 256, kOutputs = 32, kColumns = 128;
        std::vector<std::uint8_t> weights(static_cast<std::size_t>(way.packed_weights_size(kOutputs, kRecords))),
            inputs(static_cast<std::size_t>(way.packed_inputs_size(kColumns, kRecords)));
        std::vector<std::int64_t> sums(kOutputs * kColumns);
        const auto begin = std::chrono::steady_clock::now();
        way.add({weights.data(), inputs.data(), kRecords, kRecords, kOutputs, kColumns, sums.data(), kColumns});
        return (std::chrono::steady_clock::now() - begin).count();
    }

    ProductWay ways_[4];
    int count_ = 0, tried_ = 0;
    std::atomic<int> serving_{-1};
};

Ways& find_product_ways() {
    return PerProcess<Ways>::get();
}

}  // namespace

std::int64_t ProductWay::limit_product_records(double largest_product) const noexcept {
    double each = 0;
    if (parts) {
        constexpr double low = 128.0 * kLargestEntry, most = static_cast<double>(kLargestWeight) * kLargestEntry;
        each = std::max(low, (std::min(largest_product, most) + low) / 256);
    } else {
        each = 2 * 128.0 * 128.0;  // each sum gets at most two products of digits from a record
    }
    return static_cast<std::int64_t>(kMost32 / each) / kDenseBlock * kDenseBlock;
}

const ProductWay* product_way(int number) {
    return find_product_ways().find_product_way(number);
}

const ProductWay& serving_product_way() {
    return find_product_ways().find_serving_product_way();
}

void choose_product_way(int number) {
    find_product_ways().choose_serving_way(number);
}

}  // namespace tightdp
