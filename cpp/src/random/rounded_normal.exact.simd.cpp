// Computes rounded normals from tiles of words in floating point. A draw is in doubt if its first digits do not decide
// how it rounds. Groups in which a draw is in doubt are marked, and nothing is added for them
// (rounded_normal.simd.hpp).
#include "rounded_normal.simd.hpp"
#include "tightdp/random/rounding.hpp"
#include "tightdp/random/tile.hpp"

namespace tightdp::TIGHTDP_ISA {

using namespace random;

namespace {

template <bool each>
inline __attribute__((always_inline)) void add_rounded_normals_by_group(const std::uint32_t* __restrict words,
                                                                        std::int64_t groups,
                                                                        const double* __restrict sigma,
                                                                        std::int64_t* __restrict values,
                                                                        unsigned char* __restrict doubt) {
    const RoundingLimits all = normal_rounding_limits<64>(*sigma);
    for (std::int64_t group = 0; group < groups; ++group) {
        const std::uint32_t* const w = words + group * 4 * kLanes;
        std::int64_t* const out = values + group * 2 * kLanes;
        std::int64_t drawn[2][kLanes];
        std::int64_t doubtful = 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            const double* const s = sigma + group * 2 * kLanes + lane;
            const RoundingLimits cosine = each ? normal_rounding_limits<64>(s[0]) : all;
            const RoundingLimits sine = each ? normal_rounding_limits<64>(s[kLanes]) : all;
            const RoundedPair rounded = round_normal_pair<64>(cosine, sine, w[lane], w[kLanes + lane],
                                                              w[2 * kLanes + lane], w[3 * kLanes + lane]);
            drawn[0][lane] = rounded.cosine;
            drawn[1][lane] = rounded.sine;
            doubtful |= (rounded.cosine_in_doubt | rounded.sine_in_doubt) ? 1 : 0;
        }
        doubt[group] = doubtful != 0;
        if (doubtful) continue;
        for (int half = 0; half < 2; ++half)
            for (int lane = 0; lane < kLanes; ++lane) {
                const auto sum = static_cast<std::uint64_t>(out[half * kLanes + lane]) +
                                 static_cast<std::uint64_t>(drawn[half][lane]);
                out[half * kLanes + lane] = static_cast<std::int64_t>(sum);
            }
    }
}

}  // namespace

void add_rounded_normal_groups(const std::uint32_t* words, std::int64_t groups, const double* sigma, bool each,
                               std::int64_t* values, unsigned char* doubt) {
    each ? add_rounded_normals_by_group<true>(words, groups, sigma, values, doubt)
         : add_rounded_normals_by_group<false>(words, groups, sigma, values, doubt);
}

}  // namespace tightdp::TIGHTDP_ISA
