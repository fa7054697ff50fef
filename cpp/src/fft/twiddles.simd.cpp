// Computes roots of unity with relative errors of at most 1.5 u, where u = 2^-53 (docs/theory/fft.md, Lemma 1).
#include "real_fft.simd.hpp"
#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// kHigh + kLow is pi/4 within 2^-79. kHigh has 23 bits, so the product f * kHigh is exact for an f of at most 30 bits.
constexpr double kHigh = 0x1.921fb4p-1;
constexpr double kLow = 0x1.4442d18469899p-25;

// Computes sin and cos of f pi/4, where the significand of f in [0, 1] has at most 30 bits.
inline void sincos(Vec f, Vec& s, Vec& c) {
    const Vec high = f * kHigh;
    const Vec low = f * kLow;
    const Vec r = high + low;
    const Vec rest = (high - r) + low;
    const Vec r2 = r * r;
    // The first term that each Taylor series leaves out is less than 2^-58 of the value on [0, pi/4].
    const Vec sine = horner(r2, 1.0 / 355687428096e3, -1.0 / 1307674368e3, 1.0 / 6227020800.0, -1.0 / 39916800.0,
                            1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
    const Vec cosine = horner(r2, 1.0 / 20922789888e3, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
                              1.0 / 40320, -1.0 / 720, 1.0 / 24);
    s = r + (r * r2 * sine + rest);
    const Vec half = 0.5 * r2;
    const Vec head = 1.0 - half;
    c = head + (((1.0 - head) - half) + (r2 * r2 * cosine - r * rest));
}

}  // namespace

void compute_fft_roots(std::size_t m, std::size_t count, double* re, double* im) {
    for (std::size_t j = 0; j < count; j += kLanes) {
        // t is the exact angle in units of pi/4, in [0, 4). This angle is folded to f in [0, 1].
        const Vec t = (static_cast<double>(j) + iota()) * (8.0 / static_cast<double>(m));
        const Vec folded_half = t > 2.0 ? 4.0 - t : t;
        const Vec f = folded_half > 1.0 ? 2.0 - folded_half : folded_half;
        Vec s, c;
        sincos(f, s, c);
        const Vec cosine = folded_half > 1.0 ? s : c;
        const Vec sine = folded_half > 1.0 ? c : s;
        store(re + j, t > 2.0 ? -cosine : cosine);
        store(im + j, -sine);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
