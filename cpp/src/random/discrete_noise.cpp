#include "discrete_noise.hpp"

#include "chunk_words.hpp"
#include "runtime/parallel.hpp"
#include "tightdp/exact/discrete.hpp"

namespace tightdp {
namespace {

using exact::Uint128;
using random::RandomStream;

constexpr std::int64_t kDrawUnits = 1000;  // units of work (runtime/work_budget.hpp) for one draw, about a microsecond
template <class Draw>
void add_discrete_draws(const RandomStream& stream, std::size_t n, std::int64_t* out, Draw draw) {
    parallel_pieces(n, kChunkDraws, kChunkDraws * kDrawUnits, [&](std::size_t begin, std::size_t end) {
        ChunkWords words(stream, begin / kChunkDraws);
        for (std::size_t i = begin; i < end; ++i) out[i] += draw(words);
    });
}

// Returns whether integers of 128 bits suffice for the sampler of tightdp/exact/discrete.hpp. `t` is floor(sigma) + 1.
// The sampler's integers must stay below 2^127. The largest ones are squares of `difference`. The denominators of
// probabilities (`scale`) must stay below 2^100, because sampling from Bernoulli(e^-x) multiplies the denominators
// further.
bool discrete_noise_fits_128_bits(double numerator, double denominator, double t) noexcept {
    const double difference = static_cast<double>(exact::kMostUnits + 1) * t * t * denominator * denominator;
    const double scale = 2 * numerator * numerator * denominator * denominator * t * t;
    return difference < 0x1p63 && numerator < 0x1p31 && scale < 0x1p99;
}

}  // namespace

void add_discrete_gaussian(const RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator,
                           std::size_t n, std::int64_t* out) {
    const std::uint64_t floor_sigma = numerator / denominator;
    if (discrete_noise_fits_128_bits(static_cast<double>(numerator), static_cast<double>(denominator),
                                     static_cast<double>(floor_sigma) + 1)) {
        const exact::GaussianParameters<Uint128> p(Uint128{numerator} * numerator, Uint128{denominator} * denominator,
                                                   floor_sigma);
        add_discrete_draws(stream, n, out, [&](ChunkWords& words) { return exact::discrete_gaussian(p, words); });
    } else {
        // The sampler's squared differences reach (1025 * 2^126)^2 < 2^273, where 1025 = kMostUnits + 1, and its
        // denominators reach 2^234. So 384 bits are used.
        using Int = exact::WideInt<6>;
        const exact::GaussianParameters<Int> p(Int(numerator) * Int(numerator), Int(denominator) * Int(denominator),
                                               floor_sigma);
        add_discrete_draws(stream, n, out, [&](ChunkWords& words) { return exact::discrete_gaussian(p, words); });
    }
}

void add_discrete_laplace(const RandomStream& stream, std::uint64_t numerator, std::uint64_t denominator, std::size_t n,
                          std::int64_t* out) {
    const exact::LaplaceParameters p{numerator, denominator};
    add_discrete_draws(stream, n, out, [&](ChunkWords& words) { return exact::discrete_laplace(p, words); });
}

}  // namespace tightdp
