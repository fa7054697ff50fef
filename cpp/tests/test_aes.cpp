// Tests tightdp/random/aes.hpp and all functions that compute tiles (256 random words each) by AES-256. The functions
// are compared with the examples of the standards FIPS 197 and SP 800-38A, and with each other.
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "random/random_tiles.simd.hpp"

using namespace tightdp;
using namespace tightdp::random;

namespace {

// Reads words from bytes in hexadecimal digits. The first byte of a word is its lowest byte.
template <int n>
void words_of(const char* text, std::uint32_t (&words)[n]) {
    const auto digit = [](char c) { return static_cast<std::uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
    for (int i = 0; i < n; ++i) words[i] = 0;
    for (int i = 0; i < 4 * n; ++i) words[i / 4] |= (digit(text[2 * i]) << 4 | digit(text[2 * i + 1])) << (8 * (i % 4));
}

void fips_197() {
    std::uint32_t key[8], schedule[kAesScheduleWords], block[4], expected[4];
    words_of("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", key);
    words_of("00112233445566778899aabbccddeeff", block);
    words_of("8ea2b7ca516745bfeafc49904b496089", expected);
    aes256_schedule(key, schedule);
    aes256_encrypt(schedule, block);
    for (int i = 0; i < 4; ++i) CHECK(block[i] == expected[i]);
}

using Tiles = void (*)(const RandomStream&, AesUnit, std::uint64_t, std::int64_t, std::uint32_t*);

struct Way {
    Tiles tiles;
    AesUnit unit;
};

std::vector<Way> ways() {
    std::vector<Way> found{{&baseline::random_aes256_tiles, AesUnit::none}};
#if defined(TIGHTDP_X86_DISPATCH)
    const auto add = [&](Tiles tiles) {
        for (const AesUnit unit : {AesUnit::none, AesUnit::narrow, AesUnit::wide})
            if (unit <= dispatched_aes_unit()) found.push_back({tiles, unit});
    };
    if (active_isa() >= Isa::avx2) add(&avx2::random_aes256_tiles);
    if (active_isa() >= Isa::avx512) add(&avx512::random_aes256_tiles);
#endif
    return found;
}

// Tests the output blocks of the four counter blocks of SP 800-38A, F.5.5. The first counter block is the last block of
// its tile, so the test reads two tiles.
void sp_800_38a() {
    const char* const outputs[] = {"0bdf7df1591716335e9a8b15c860c502", "5a6e699d536119065433863c8f657b94",
                                   "1bc12c9c01610d5d0d8bd6a3378eca62", "2956e1c8693536b1bee99c73a31576b6"};
    std::uint32_t key[8];
    words_of("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", key);
    const RandomStream stream = aes256_stream(key, 0xf0f1f2f3f4f5f6f7);
    const std::uint64_t first = 0xf8f9fafbfcfdfeff, tile = first / 64;
    for (const Way& way : ways()) {
        std::uint32_t words[2 * kTileWords];
        way.tiles(stream, way.unit, tile, 2, words);
        for (std::uint64_t i = 0; i < 4; ++i) {
            std::uint32_t expected[4];
            words_of(outputs[i], expected);
            const std::uint64_t block = first % 64 + i, place = block % 64;
            for (std::uint64_t w = 0; w < 4; ++w)
                CHECK(words[block / 64 * kTileWords + (4 * (place / 16) + w) * kLanes + place % 16] == expected[w]);
        }
    }
}

void ways_agree() {
    std::uint32_t key[8];
    for (std::uint32_t i = 0; i < 8; ++i) key[i] = 0x9e3779b9u * (i + 1);
    const RandomStream stream = aes256_stream(key, 0x123456789abcdef0);
    constexpr std::int64_t kTiles = 3;
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1} << 26, (std::uint64_t{1} << 57) - 4}) {
        std::vector<std::uint32_t> alone(kTiles * kTileWords);
        for (std::uint64_t t = 0; t < kTiles; ++t)
            for (int k = 0; k < 4; ++k)
                for (int lane = 0; lane < kLanes; ++lane) {
                    std::uint32_t words[4];
                    random_lane_words(stream, first + t, lane, k, words);
                    for (int w = 0; w < 4; ++w) alone[t * kTileWords + (4 * k + w) * kLanes + lane] = words[w];
                }
        for (const Way& way : ways()) {
            std::vector<std::uint32_t> words(kTiles * kTileWords);
            way.tiles(stream, way.unit, first, kTiles, words.data());
            CHECK(words == alone);
        }
    }
}

}  // namespace

int main() {
    fips_197();
    sp_800_38a();
    ways_agree();
    return check::failures;
}
