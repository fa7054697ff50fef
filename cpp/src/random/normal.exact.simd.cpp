// Turns tiles of random words (tightdp/random/tile.hpp) into normals by the transform of Box and Muller.
#include "tightdp/random/normal.hpp"

#include "random_tiles.simd.hpp"

namespace tightdp::TIGHTDP_ISA {

using namespace random;

namespace {

template <class Real>
inline __attribute__((always_inline)) void transform_words_to_normals(const std::uint32_t* __restrict words,
                                                                      std::int64_t count, Real* __restrict out) {
    for (std::int64_t group = 0; group < 4 * count; ++group) {
        const std::uint32_t* const w = words + group * 4 * kLanes;
        Real* const z = out + group * 2 * kLanes;
        for (int lane = 0; lane < kLanes; ++lane) {
            const NormalPair<Real> pair =
                normal_pair<Real>(w[lane], w[kLanes + lane], w[2 * kLanes + lane], w[3 * kLanes + lane]);
            z[lane] = pair.cosine;
            z[kLanes + lane] = pair.sine;
        }
    }
}

}  // namespace

void normal_tiles_f32(const std::uint32_t* words, std::int64_t count, float* out) {
    transform_words_to_normals(words, count, out);
}
void normal_tiles_f64(const std::uint32_t* words, std::int64_t count, double* out) {
    transform_words_to_normals(words, count, out);
}

}  // namespace tightdp::TIGHTDP_ISA
