// The loops of fft/real_fft.hpp, compiled once for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "real_fft.hpp"
#include "runtime/dispatch.hpp"

namespace tightdp {

// Computes the roots of unity e^{-2 pi i j / m} for j < count <= m/2, where count is a multiple of 8. The real and the
// imaginary part have relative errors of at most 1.5 * 2^-53.
TIGHTDP_DECLARE_SIMD(void, compute_fft_roots, (std::size_t m, std::size_t count, double* re, double* im))

TIGHTDP_DECLARE_SIMD(void, run_forward_fft, (const FftTables& tables, std::size_t n, const double* x, double* spectrum))
TIGHTDP_DECLARE_SIMD(void, run_inverse_fft, (const FftTables& tables, std::size_t n, const double* spectrum, double* x))
TIGHTDP_DECLARE_SIMD(void, multiply_spectra, (std::size_t n, const double* a, const double* b, double* out))
// Computes k-th powers of coefficients. The result is zero if |a|^2 < `nothing`.
TIGHTDP_DECLARE_SIMD(void, raise_spectrum,
                     (std::size_t n, const double* a, std::uint64_t k, double nothing, double* out))

}  // namespace tightdp
