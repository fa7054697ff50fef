// Writes random words and values to arrays, in the tiles of tightdp/random/tile.hpp.
#include "draws.hpp"

#include <algorithm>

#include "random_tiles.simd.hpp"
#include "runtime/parallel.hpp"
#include "runtime/system.hpp"
#include "split_tiles.hpp"

namespace tightdp {

using namespace random;

namespace {

// Number of values that a thread takes at a time, about 30 microseconds of work. Waking another thread for fewer values
// would not save time.
constexpr std::size_t kGrain = 1u << 14;

// Writes the values with the indices [first, first + n) on the calling thread. Calls tiles(first_tile, count, out) for
// runs of whole tiles. If only a part of a tile is needed, the whole tile is computed in a buffer, and the part is
// copied.
template <class T, class Tiles>
void write_random_range(std::uint64_t first, std::size_t n, T* out, Tiles tiles) noexcept {
    split_draws_into_tiles(
        first, n, [&](std::uint64_t tile, std::int64_t count, std::size_t at) { tiles(tile, count, out + at); },
        [&](std::uint64_t tile, std::size_t skip, std::size_t count, std::size_t at) {
            alignas(64) T buffer[kTileValues];
            tiles(tile, 1, buffer);
            std::copy_n(buffer + skip, count, out + at);
        });
}

// Writes the same values as write_random_range(), on several threads.
template <class T, class Tiles>
void fill_random_range(std::uint64_t first, std::size_t n, T* out, Tiles tiles) {
    parallel_pieces(n, kGrain, kGrain, [&](std::size_t begin, std::size_t end) {
        write_random_range(first + begin, end - begin, out + begin, tiles);
    });
}

// Returns a function that draws the words of tiles and applies `transform` to them.
template <class T, class Transform>
auto random_value_tiles(const RandomStream& stream, Transform transform) {
    return
        [&stream, transform, draw = TIGHTDP_SELECT_SIMD(random_tiles)](std::uint64_t tile, std::int64_t count, T* out) {
            alignas(64) std::uint32_t words[kTilesAtOnce * kTileWords];
            draw(stream, tile, count, words);
            transform(words, count, out);
        };
}

auto random_normal_tiles(const RandomStream& stream, float*) {
    return random_value_tiles<float>(stream, TIGHTDP_SELECT_SIMD(normal_tiles_f32));
}

auto random_normal_tiles(const RandomStream& stream, double*) {
    return random_value_tiles<double>(stream, TIGHTDP_SELECT_SIMD(normal_tiles_f64));
}

template <class T, class Function>
auto random_integer_tiles(const RandomStream& stream, Function function) {
    return random_value_tiles<T>(stream, [function](const std::uint32_t* words, std::int64_t count, T* out) {
        for (std::int64_t row = 0; row < count * kRows / 2; ++row)
            for (int lane = 0; lane < kLanes; ++lane) {
                const std::uint64_t high = words[2 * row * kLanes + lane];
                const std::uint64_t low = words[(2 * row + 1) * kLanes + lane];
                out[row * kLanes + lane] = function(high << 32 | low);
            }
    });
}

}  // namespace

RandomStream draw_secure_random_stream(bool on_device) {
    RandomStream stream{Generator::chacha20, {}, 0};
    system::random_bytes(stream.key, sizeof stream.key);
    return on_device || dispatched_aes_unit() == AesUnit::none ? stream : aes256_stream(stream.key, 0);
}

RandomStream philox_stream(std::uint64_t seed, std::uint64_t stream) noexcept {
    return {Generator::philox, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, stream};
}

void fill_random_integers(const RandomStream& stream, std::uint64_t first, std::size_t n, std::uint64_t* out) {
    fill_random_range(first, n, out,
                      random_integer_tiles<std::uint64_t>(stream, [](std::uint64_t value) { return value; }));
}

void fill_uniform(const RandomStream& stream, std::uint64_t first, std::size_t n, double* out) {
    fill_random_range(first, n, out, random_integer_tiles<double>(stream, [](std::uint64_t value) {
                          return static_cast<double>(value >> 11 | 1) * 0x1p-53;
                      }));
}

void write_normal_range(const RandomStream& stream, std::uint64_t first, std::size_t n, float* out) noexcept {
    write_random_range(first, n, out, random_normal_tiles(stream, out));
}

void write_normal_range(const RandomStream& stream, std::uint64_t first, std::size_t n, double* out) noexcept {
    write_random_range(first, n, out, random_normal_tiles(stream, out));
}

void fill_normal(const RandomStream& stream, std::uint64_t first, std::size_t n, float* out) {
    fill_random_range(first, n, out, random_normal_tiles(stream, out));
}

void fill_normal(const RandomStream& stream, std::uint64_t first, std::size_t n, double* out) {
    fill_random_range(first, n, out, random_normal_tiles(stream, out));
}

}  // namespace tightdp
