// tightdp._core: random streams and their values.
#include "../bind.hpp"
#include "../sealed_stream.hpp"
#include "random/draws.hpp"
#include "runtime/parallel.hpp"
#include "unlocked.hpp"

namespace {

using tightdp::bindings::SealedStream;
using tightdp::random::Generator;
using tightdp::random::RandomStream;

std::unique_ptr<SealedStream> make_python_random_stream(Generator generator, const std::string& key, std::uint64_t stream) {
    if (key.size() != 32) throw std::invalid_argument("key must be 32 bytes");
    RandomStream s{generator, {}, stream};
    for (int i = 0; i < 32; ++i)
        s.key[i / 4] |= static_cast<std::uint32_t>(static_cast<unsigned char>(key[i])) << (8 * (i % 4));
    if (generator == Generator::aes256) s = tightdp::random::aes256_stream(s.key, stream);
    return std::make_unique<SealedStream>(s);
}

template <class T>
void fill_numpy_with_draws(const SealedStream& stream, std::uint64_t first, py::array_t<T, py::array::c_style> out,
                           void (*fill)(const RandomStream&, std::uint64_t, std::size_t, T*)) {
    T* const data = out.mutable_data();
    const auto n = static_cast<std::size_t>(out.size());
    tightdp::bindings::run_unlocked([&] { fill(*stream, first, n, data); });
}

template <class T, void (*fill)(const RandomStream&, std::uint64_t, std::size_t, T*)>
py::array_t<T> make_numpy_draws(const SealedStream& stream, std::uint64_t first, std::size_t n) {
    py::array_t<T> out(static_cast<py::ssize_t>(n));
    fill_numpy_with_draws<T>(stream, first, out, fill);
    return out;
}

template <class T>
void fill_numpy_with_normals(const SealedStream& stream, std::uint64_t first, py::array_t<T, py::array::c_style> out) {
    fill_numpy_with_draws<T>(stream, first, out, &tightdp::fill_normal);
}

}  // namespace

void bind_random(py::module_& m) {
    py::class_<SealedStream>(m, "RandomStream", "A key and a stream number. The key cannot be read.");
    m.def(
        "draw_secure_random_stream",
        [](bool on_device) { return std::make_unique<SealedStream>(tightdp::draw_secure_random_stream(on_device)); },
        py::arg("on_device") = false);
    m.def(
        "philox_stream",
        [](std::uint64_t seed, std::uint64_t stream) {
            return std::make_unique<SealedStream>(tightdp::philox_stream(seed, stream));
        },
        py::arg("seed"), py::arg("stream"));
    const auto def_keyed = [&](const char* name, Generator generator) {
        m.def(
            name, [generator](const py::bytes& key, std::uint64_t s) { return make_python_random_stream(generator, key, s); },
            py::arg("key"), py::arg("stream"));
    };
    def_keyed("chacha_stream", Generator::chacha20);
    def_keyed("aes_stream", Generator::aes256);
    m.def("random_integers", &make_numpy_draws<std::uint64_t, &tightdp::fill_random_integers>, py::arg("stream"),
          py::arg("first"), py::arg("n"));
    m.def("random_uniform", &make_numpy_draws<double, &tightdp::fill_uniform>, py::arg("stream"), py::arg("first"),
          py::arg("n"));
    m.def("random_normal", &fill_numpy_with_normals<float>, py::arg("stream"), py::arg("first"),
          py::arg("out").noconvert());
    m.def("random_normal", &fill_numpy_with_normals<double>, py::arg("stream"), py::arg("first"),
          py::arg("out").noconvert());
    m.def("max_threads", &tightdp::max_threads);
    m.def("set_max_threads", &tightdp::set_max_threads, py::arg("count"));
}
