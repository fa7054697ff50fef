// tightdp._testing: computes random values from given words, and with settings that make rare branches common.
#include "../../bindings/bind.hpp"
#include "../../bindings/sealed_stream.hpp"
#include "random/random_tiles.simd.hpp"
#include "tightdp/random/rounded_normal.hpp"

namespace {

using namespace tightdp;
using namespace tightdp::random;
using bindings::SealedStream;
using Integers = py::array_t<std::int64_t, py::array::c_style>;

// Turns the 256 words of each tile (tightdp/random/tile.hpp) into 128 normals.
py::array testing_normals_of_words(const py::array_t<std::uint32_t, py::array::c_style>& words, bool single) {
    const py::ssize_t tiles = words.size() / kTileWords;
    if (words.ndim() != 1 || words.size() != tiles * kTileWords)
        throw std::invalid_argument("words must be one-dimensional, in tiles of 256");
    const auto transformed = [&](auto out, auto transform) -> py::array {
        transform(words.data(), tiles, out.mutable_data());
        return out;
    };
    if (single) return transformed(py::array_t<float>(words.size() / 2), TIGHTDP_SELECT_SIMD(normal_tiles_f32));
    return transformed(py::array_t<double>(words.size() / 2), TIGHTDP_SELECT_SIMD(normal_tiles_f64));
}

// Computes the first draws of a stream with the function that each thread of a device calls. The function first uses
// `first_bits` digits of the uniform numbers. If `first_bits` is below 64, the next digits come from further words. So
// the draws equal the library's other draws only if `first_bits` is 64. Returns the number of draws in doubt, that is
// of draws whose first digits did not decide how they round.
template <int first_bits>
py::ssize_t testing_first_draws(const SealedStream& stream, double sigma, Integers& out) {
    py::ssize_t doubts = 0;
    std::int64_t* const data = out.mutable_data();
    for (py::ssize_t i = 0; i < out.size(); ++i) {
        const RoundedDraw drawn = rounded_normal_at<first_bits>(*stream, static_cast<std::uint64_t>(i), sigma);
        data[i] = drawn.integer;
        doubts += drawn.in_doubt;
    }
    return doubts;
}

py::ssize_t testing_rounded_normals(const SealedStream& stream, double sigma, int first_bits, Integers out) {
    switch (first_bits) {
        case 6:
            return testing_first_draws<6>(stream, sigma, out);
        case 10:
            return testing_first_draws<10>(stream, sigma, out);
        case 14:
            return testing_first_draws<14>(stream, sigma, out);
        case 64:
            return testing_first_draws<64>(stream, sigma, out);
        default:
            throw std::invalid_argument("first_bits must be 6, 10, 14 or 64");
    }
}

// Returns the two integers of the pair of normals with the number `pair`, as if `words` were its words in the tile.
std::pair<std::int64_t, std::int64_t> testing_rounded_pair(const SealedStream& stream, std::uint64_t pair,
                                                           const std::array<std::uint32_t, 4>& words, double sigma) {
    const std::uint32_t w[4] = {words[0], words[1], words[2], words[3]};
    const RoundedPair rounded = rounded_pair(*stream, pair, w, sigma, sigma);
    return {rounded.cosine, rounded.sine};
}

// Returns the integer of a draw whose uniform numbers x and y start with these words of 64 binary digits. Returns
// nothing if the digits do not decide the integer.
std::optional<std::int64_t> testing_settled_normal(double sigma, bool sine, const std::vector<std::uint64_t>& x,
                                                   const std::vector<std::uint64_t>& y) {
    if (x.empty() || x.size() != y.size() || x.size() > 1000 || !(sigma >= 0 && sigma <= 0x1p39))
        throw std::invalid_argument("x and y must be as many words, 1 to 1000, and sigma in [0, 2^39]");
    const int words = static_cast<int>(x.size());
    std::vector<exact::Limb> work(static_cast<std::size_t>(exact::count_box_muller_limbs(words)));
    const auto word = [&](int j, std::uint64_t& of_x, std::uint64_t& of_y) {
        of_x = x[static_cast<std::size_t>(j)];
        of_y = y[static_cast<std::size_t>(j)];
    };
    std::int64_t rounded;
    if (!exact::try_exact_box_muller(sigma, sine, words, word, work.data(), rounded)) return std::nullopt;
    return rounded;
}

}  // namespace

void bind_testing_random(py::module_& m) {
    using namespace py::literals;
    m.def("normals_of_words", &testing_normals_of_words, "words"_a, "single"_a);
    m.def("rounded_normals_from", &testing_rounded_normals, "stream"_a, "sigma"_a, "first_bits"_a, "out"_a.noconvert());
    m.def("rounded_pair_of_words", &testing_rounded_pair, "stream"_a, "pair"_a, "words"_a, "sigma"_a);
    m.def("settled_by", &testing_settled_normal, "sigma"_a, "sine"_a, "x"_a, "y"_a);
}
