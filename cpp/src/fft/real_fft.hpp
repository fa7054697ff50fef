// Fourier transform of real sequences of power-of-two length, made for convolutions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/aligned.hpp"
#include "tightdp/config.hpp"

namespace tightdp {

// Roots of unity w_m^j = e^{-2 pi i j / m}: real parts re[log2 m][j], imaginary parts im[log2 m][j].
struct FftTables {
    static constexpr int kLevels = 32;
    const double* re[kLevels]{};
    const double* im[kLevels]{};
};

// X_f = sum_j x_j e^{-2 pi i f j / n}, f = 0..n-1, for real x; the inverse divides by n.
//
// A spectrum is n doubles in the order that the forward transform leaves behind and its inverse reads
// (no bit reversal). At level m = n, n/2, ..., 4 the doubles [m/2, 3m/4) are real parts and [3m/4, m) the
// imaginary parts of m/4 coefficients, one of each conjugate pair; doubles 0 and 1 are X_0 and X_{n/2}.
// The transform of the unit impulse at 1 tells the frequency of each: its coefficients are the roots of unity.
//
// Precondition: pointers hold n doubles; out may equal in. 64-byte alignment is faster, not needed.
// Error (docs/theory/fft.md, Theorems 1-3): with kappa = rounding_bound(), in the norm of the whole spectrum
//     |X^ - X|_2 <= kappa |X|_2,   max_f |X^_f - X_f| <= kappa |x|_1,   |x^ - x|_2 <= kappa |x|_2 (inverse),
// as long as nothing overflows; underflow adds at most n 2^-1074 to a coefficient.
// Thread safety: a plan is immutable; any number of threads may use one.
class RealFft {
  public:
    static constexpr std::size_t kMinLength = 4;
    static constexpr std::size_t kMaxLength = std::size_t{1} << 30;  // twiddle angles j/n stay exact, below 31 bits

    // Precondition: n is a power of two in [kMinLength, kMaxLength]; else std::invalid_argument.
    explicit RealFft(std::size_t n);

    // A plan that is shared with whoever asked for this length before.
    static std::shared_ptr<const RealFft> plan(std::size_t n);

    std::size_t size() const noexcept { return n_; }
    double rounding_bound() const noexcept { return kappa_; }

    void forward(const double* x, double* spectrum) const noexcept;
    void inverse(const double* spectrum, double* x) const noexcept;

    // out = a * b, coefficient by coefficient: the spectrum of the circular convolution.
    // Error: each coefficient relatively 2 sqrt(2) u (1 + u).
    void multiply(const double* a, const double* b, double* out) const noexcept;

    // out = a^k by repeated squaring, k >= 1. Error: power_bound(k) relatively for each coefficient of
    // magnitude at most 1, plus 2^-450 absolutely: intermediate powers under 2^-480 are set to zero.
    void power(const double* a, std::uint64_t k, double* out) const noexcept;
    static double power_bound(std::uint64_t k) noexcept;

  private:
    std::size_t n_;
    double kappa_;
    AlignedArray roots_;
    FftTables tables_;
};

}  // namespace tightdp
