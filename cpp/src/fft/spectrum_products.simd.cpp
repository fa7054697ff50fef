// Products and powers of spectra, coefficient by coefficient. The layout of spectra is that of fft/real_fft.hpp.
#include "real_fft.simd.hpp"
#include "simd/complex.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

using std::size_t;

// Magnitude below which intermediate powers are set to zero. Products of larger powers are never subnormal, and so they
// are fast. 2^-480 is far below any tolerance.
constexpr double kNothing = 0x1p-480;

inline Complex flush_tiny_fft_coefficients(Complex z) {
    const Mask keep = abs(z.re) + abs(z.im) > kNothing;
    return {keep ? z.re : Vec{}, keep ? z.im : Vec{}};
}

// Returns z^k, or exactly 0 if |z|^2 < `nothing`. The caller sets `nothing` to the k-th root of kNothing^2.
inline Complex raise_fft_coefficients(Complex z, std::uint64_t k, double nothing) {
    const Mask alive = z.re * z.re + z.im * z.im >= nothing;
    // Returns early if z^k is zero in all lanes, which is frequent in a k-fold convolution.
    bool any = false;
    for (size_t l = 0; l < kLanes; ++l) any |= alive[l] != 0;
    if (!any) return Complex{};
    z = {alive ? z.re : Vec{}, alive ? z.im : Vec{}};
    while ((k & 1) == 0) {
        z = flush_tiny_fft_coefficients(times(z, z));
        k >>= 1;
    }
    Complex result = z;
    while (k >>= 1) {
        z = flush_tiny_fft_coefficients(times(z, z));
        if (k & 1) result = flush_tiny_fft_coefficients(times(result, z));
    }
    return result;
}

// Loads `width` consecutive coefficients. If there are fewer coefficients than lanes, the other lanes are zero.
inline Complex load_few_fft_coefficients(const double* re, const double* im, size_t width) {
    Complex z{};
    for (size_t l = 0; l < width && l < kLanes; ++l) z.re[l] = re[l], z.im[l] = im[l];
    return z;
}

inline void store_few_fft_coefficients(double* re, double* im, size_t width, Complex z) {
    for (size_t l = 0; l < width && l < kLanes; ++l) re[l] = z.re[l], im[l] = z.im[l];
}

// Writes f(coefficient of a, coefficient of b) for all coefficients except for the two real ones.
template <class F>
inline void combine_fft_coefficients(size_t n, const double* a, const double* b, double* out, F f) {
    for (size_t m = 4; m <= n; m *= 2) {
        const size_t re = m / 2, q = m / 4, im = re + q;
        if (q < kLanes) {
            store_few_fft_coefficients(
                out + re, out + im, q,
                f(load_few_fft_coefficients(a + re, a + im, q), load_few_fft_coefficients(b + re, b + im, q)));
            continue;
        }
        for (size_t j = 0; j < q; j += kLanes) {
            const Complex x = load(a + re + j, a + im + j), y = load(b + re + j, b + im + j);
            store(out + re + j, out + im + j, f(x, y));
        }
    }
}

}  // namespace

void multiply_spectra(size_t n, const double* a, const double* b, double* out) {
    const double first = a[0] * b[0], second = a[1] * b[1];
    combine_fft_coefficients(n, a, b, out, [](Complex x, Complex y) { return times(x, y); });
    out[0] = first;
    out[1] = second;
}

void raise_spectrum(size_t n, const double* a, std::uint64_t k, double nothing, double* out) {
    Complex real{};
    real.re[0] = a[0], real.re[1] = a[1];
    real = raise_fft_coefficients(real, k, nothing);
    combine_fft_coefficients(n, a, a, out,
                             [k, nothing](Complex z, Complex) { return raise_fft_coefficients(z, k, nothing); });
    out[0] = real.re[0];
    out[1] = real.re[1];
}

}  // namespace tightdp::TIGHTDP_ISA
