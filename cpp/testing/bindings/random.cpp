// tightdp._testing: values at words that no stream reaches, and rare branches made common.
#include "../../bindings/bind.hpp"
#include "../../bindings/sealed_stream.hpp"
#include "../rounded_emulation.hpp"

namespace {

using tightdp::bindings::SealedStream;
using Integers = py::array_t<std::int64_t, py::array::c_style>;

// 256 words a tile become 128 normals.
py::array normals_of_words(const py::array_t<std::uint32_t, py::array::c_style>& words, bool single) {
    using namespace tightdp;
    const py::ssize_t tiles = words.size() / random::kTileWords;
    if (words.ndim() != 1 || words.size() != tiles * random::kTileWords)
        throw std::invalid_argument("words must be one-dimensional, in tiles of 256");
    const auto transformed = [&](auto out, auto transform) -> py::array {
        transform(words.data(), tiles, out.mutable_data());
        return out;
    };
    if (single) return transformed(py::array_t<float>(words.size() / 2), TIGHTDP_SELECT_SIMD(normal_tiles_f32));
    return transformed(py::array_t<double>(words.size() / 2), TIGHTDP_SELECT_SIMD(normal_tiles_f64));
}

}  // namespace

void bind_random(py::module_& m) {
    using namespace py::literals;
    m.def("normals_of_words", &normals_of_words, "words"_a, "single"_a);
    m.def(
        "rounded_normals_from",
        [](const SealedStream& stream, double sigma, int first_bits, Integers out) {
            std::int64_t* const data = out.mutable_data();
            const auto n = static_cast<std::size_t>(out.size());
            py::gil_scoped_release release;
            return tightdp::rounded_normals_from(*stream, sigma, first_bits, n, data);
        },
        "stream"_a, "sigma"_a, "first_bits"_a, "out"_a.noconvert());
    m.def(
        "rounded_pair_of_words",
        [](const SealedStream& stream, std::uint64_t pair, const std::array<std::uint32_t, 4>& words, double sigma) {
            return tightdp::rounded_pair_of_words(*stream, pair, words, sigma);
        },
        "stream"_a, "pair"_a, "words"_a, "sigma"_a);
    m.def("settled_by", &tightdp::settled_by, "sigma"_a, "sine"_a, "x"_a, "y"_a);
}
