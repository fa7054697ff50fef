#include "rounded_emulation.hpp"

#include <stdexcept>

#include "tightdp/random/rounded_normal.hpp"

namespace tightdp {

using namespace random;

namespace {

template <int first_bits>
std::size_t draw(const RandomStream& stream, double sigma, std::size_t n, std::int64_t* out) {
    std::size_t doubts = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const RoundedDraw drawn = rounded_normal_at<first_bits>(stream, i, sigma);
        out[i] = drawn.integer;
        doubts += drawn.in_doubt;
    }
    return doubts;
}

}  // namespace

std::size_t rounded_normals_from(const RandomStream& stream, double sigma, int first_bits, std::size_t n,
                                 std::int64_t* out) {
    switch (first_bits) {
        case 6: return draw<6>(stream, sigma, n, out);
        case 10: return draw<10>(stream, sigma, n, out);
        case 14: return draw<14>(stream, sigma, n, out);
        case 64: return draw<64>(stream, sigma, n, out);
        default: throw std::invalid_argument("first_bits must be 6, 10, 14 or 64");
    }
}

std::pair<std::int64_t, std::int64_t> rounded_pair_of_words(const RandomStream& stream, std::uint64_t pair,
                                                            const std::array<std::uint32_t, 4>& words, double sigma) {
    const std::uint32_t w[4] = {words[0], words[1], words[2], words[3]};
    const RoundedPair rounded = rounded_pair(stream, pair, w, sigma, sigma);
    return {rounded.cosine, rounded.sine};
}

std::optional<std::int64_t> settled_by(double sigma, bool sine, const std::vector<std::uint64_t>& x,
                                       const std::vector<std::uint64_t>& y) {
    if (x.empty() || x.size() != y.size() || x.size() > 1000 || !(sigma >= 0 && sigma <= 0x1p39))
        throw std::invalid_argument("x and y must be as many words, 1 to 1000, and sigma in [0, 2^39]");
    const int words = static_cast<int>(x.size());
    std::vector<exact::Limb> work(static_cast<std::size_t>(exact::settling_work(words)));
    const auto word = [&](int j, std::uint64_t& of_x, std::uint64_t& of_y) {
        of_x = x[static_cast<std::size_t>(j)];
        of_y = y[static_cast<std::size_t>(j)];
    };
    std::int64_t rounded;
    if (!exact::settled_normal(sigma, sine, words, word, work.data(), rounded)) return std::nullopt;
    return rounded;
}

}  // namespace tightdp
