// The Fourier transform of real sequences whose length is a power of two, for convolutions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/aligned.hpp"
#include "tightdp/config.hpp"

namespace tightdp {

// Tables of the roots of unity w_m^j = e^{-2 pi i j / m}, with real parts re[log2 m][j] and imaginary parts im[log2
// m][j].
struct FftTables {
    static constexpr int kLevels = 32;
    const double* re[kLevels]{};
    const double* im[kLevels]{};
};

// A plan for the transform X_f = sum_j x_j e^{-2 pi i f j / n}, f = 0..n-1, of real x, and for its inverse, which
// divides by n. A plan is immutable, and any number of threads may use it.
//
// A spectrum consists of n doubles, in the order in which the forward transform leaves them, without bit reversal. At
// each level m = n, n/2, ..., 4, the doubles [m/2, 3m/4) are the real parts of m/4 coefficients, and [3m/4, m) their
// imaginary parts. Only one coefficient of each conjugate pair is stored. The doubles 0 and 1 are X_0 and X_{n/2}. To
// find the frequency f of each coefficient, transform the x with x_1 = 1 and zeros elsewhere: then X_f is w_n^f.
//
// Preconditions: each pointer refers to n doubles. The output may be the same array as an input. Alignment to 64 bytes
// is faster, but not needed. With kappa = rounding_bound(), the errors are (docs/theory/fft.md, Theorems 1 to 3)
//     |X^ - X|_2 <= kappa |X|_2,   max_f |X^_f - X_f| <= kappa |x|_1,   |x^ - x|_2 <= kappa |x|_2 (inverse),
// where |X|_2 is the norm of all n coefficients X_0, ..., X_{n-1}, and X^ and x^ are the computed values. The bounds
// hold unless numbers overflow. Underflow adds at most n 2^-1074 to the error of a coefficient.
class RealFft {
  public:
    static constexpr std::size_t kMinLength = 4;
    static constexpr std::size_t kMaxLength = std::size_t{1} << 30;  // the angles j/n of roots are exact up to this n

    // Makes a plan for the length n, a power of two in [kMinLength, kMaxLength]. Throws std::invalid_argument for other
    // n.
    explicit RealFft(std::size_t n);

    // Returns a plan that all callers with the same length share.
    static std::shared_ptr<const RealFft> plan(std::size_t n);

    std::size_t size() const noexcept { return n_; }
    double rounding_bound() const noexcept { return kappa_; }

    void forward(const double* x, double* spectrum) const noexcept;
    void inverse(const double* spectrum, double* x) const noexcept;

    // Multiplies two spectra coefficient by coefficient, which gives the spectrum of the circular convolution. The
    // relative error of each coefficient is at most 2 sqrt(2) u (1 + u), where u = 2^-53.
    void multiply(const double* a, const double* b, double* out) const noexcept;

    // Computes the k-th power of a spectrum, k >= 1, by repeated squaring. For a coefficient of magnitude at most 1,
    // the relative error is at most power_bound(k). There is also an absolute error of at most 2^-450, because
    // intermediate powers below 2^-480 are set to zero.
    void power(const double* a, std::uint64_t k, double* out) const noexcept;
    static double power_bound(std::uint64_t k) noexcept;

  private:
    std::size_t n_;
    double kappa_;
    AlignedArray roots_;
    FftTables tables_;
};

}  // namespace tightdp
