#include "exact_noise.hpp"

#include <algorithm>

#include "kernels.hpp"
#include "runtime/parallel.hpp"
#include "tightdp/exact/discrete.hpp"
#include "tightdp/exact/normal.hpp"

namespace tightdp {
namespace {

using exact::Uint128;
using random::RandomStream;

constexpr std::size_t kChunk = 256;
constexpr std::int64_t kDrawUnits = 1000;  // of work: a microsecond
// Tiles a chunk may use: 2^32 words and more, where some 10^4 are needed. 2^36 chunks then still fit 64-bit
// block numbers.
constexpr int kTilesPerChunkLog2 = 24;

// The words of one chunk, a few tiles at a time.
class ChunkWords {
  public:
    ChunkWords(const RandomStream& stream, std::uint64_t chunk) noexcept
        : stream_(stream), tile_(chunk << kTilesPerChunkLog2) {}

    std::uint64_t next64() noexcept {
        if (used_ + 2 > kWords) refill();
        const std::uint64_t high = words_[used_], low = words_[used_ + 1];
        used_ += 2;
        return high << 32 | low;
    }

    bool next_bit() noexcept {
        if (bits_left_ == 0) {
            bits_ = next64();
            bits_left_ = 64;
        }
        return bits_ >> --bits_left_ & 1;
    }

  private:
    static constexpr long kTiles = 4;
    static constexpr int kWords = kTiles * random::kTileWords;

    void refill() noexcept {
        TIGHTDP_SELECT_SIMD(random_tiles)(stream_, tile_, kTiles, words_);
        tile_ += kTiles;
        used_ = 0;
    }

    const RandomStream& stream_;
    std::uint64_t tile_;
    int used_ = kWords;
    std::uint64_t bits_ = 0;
    int bits_left_ = 0;
    alignas(64) std::uint32_t words_[kWords];
};

template <class Draw>
void add(const RandomStream& stream, std::size_t n, std::int64_t* out, Draw draw) {
    parallel_pieces(n, kChunk, kChunk * kDrawUnits, [&](std::size_t begin, std::size_t end) {
        ChunkWords words(stream, begin / kChunk);
        for (std::size_t i = begin; i < end; ++i) out[i] += draw(words);
    });
}

std::uint64_t floor_ratio(std::uint64_t numerator, std::uint64_t denominator) {
    return numerator / denominator;
}

// Whether all of discrete.hpp's integers stay below 2^127, and its denominators below 2^100 so that the
// rounds of an exponential coin may multiply them.
bool fits_128_bits(double numerator, double denominator, double t) noexcept {
    const double difference = static_cast<double>(exact::kMostUnits + 1) * t * t * denominator * denominator;
    const double scale = 2 * numerator * numerator * denominator * denominator * t * t;
    return difference < 0x1p63 && numerator < 0x1p31 && scale < 0x1p99;
}

}  // namespace

void add_discrete_gaussian(const RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator,
                           std::size_t n, std::int64_t* out) {
    const std::uint64_t floor_sigma = floor_ratio(numerator, denominator);
    if (fits_128_bits(static_cast<double>(numerator), static_cast<double>(denominator),
                      static_cast<double>(floor_sigma) + 1)) {
        const exact::GaussianParameters<Uint128> p(Uint128{numerator} * numerator,
                                                   Uint128{denominator} * denominator, floor_sigma);
        add(stream, n, out, [&](ChunkWords& words) { return exact::discrete_gaussian(p, words); });
    } else {
        // 384 bits: differences reach (1025 * 2^126)^2 < 2^273, denominators 2^234.
        using Int = exact::WideInt<6>;
        const exact::GaussianParameters<Int> p(Int(numerator) * Int(numerator),
                                               Int(denominator) * Int(denominator), floor_sigma);
        add(stream, n, out, [&](ChunkWords& words) { return exact::discrete_gaussian(p, words); });
    }
}

void add_discrete_laplace(const RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator,
                          std::size_t n, std::int64_t* out) {
    const exact::LaplaceParameters p{numerator, denominator};
    add(stream, n, out, [&](ChunkWords& words) { return exact::discrete_laplace(p, words); });
}

void add_rounded_normal(const RandomStream& stream, std::uint64_t numerator, int shift, std::size_t n,
                        std::int64_t* out) {
    const exact::RoundedNormalParameters p{numerator, shift};
    add(stream, n, out, [&](ChunkWords& words) { return exact::rounded_normal(p, words); });
}

}  // namespace tightdp
