// Plans of the real Fourier transform: tables of roots, the bound on rounding errors, and the choice of the instruction
// set.
#include "real_fft.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <string>

#include "real_fft.simd.hpp"
#include "runtime/per_process.hpp"

namespace tightdp {
namespace {

constexpr double u = kUnitRoundoff;

// A layer is one operation that a transform applies to all numbers. The constants are the relative errors of three
// kinds of layers in the Euclidean norm (docs/theory/fft.md, Lemmas 1 and 2): an addition, a product, and a product
// with a stored root of unity. The stored root has an error of 1.5 u, and the product has an error of 2 sqrt(2) u.
constexpr double kAdd = u;
constexpr double kTimes = 2.8284271247461904 * u * (1 + 4 * u);
constexpr double kTwiddle = kTimes + 1.5 * u * (1 + 8 * u);

// Returns the number of roots e^{-2 pi i j / m}, j = 0, 1, ..., that a plan of length n stores. The passes at the
// lengths m = n, n/2 and n/4 need only the roots of the first quarter turn.
std::size_t count_fft_roots(std::size_t n, std::size_t m) {
    const std::size_t count = m > 32 && m >= n / 4 ? m / 4 : m / 2;
    return count < 8 ? 8 : count;
}

// Returns kappa of real_fft.hpp. 1 + kappa is the product of 1 + error over the layers that a number goes through.
// A number goes through at most log2(n) additions, and through one product with a root where real numbers become
// complex. There is one further product for every factor 4 of n, or for every factor 2 in the short scalar transforms
// (fft.md, section 3).
double bound_fft_rounding(std::size_t n) {
    const int bits = std::bit_width(n) - 1;
    const int twiddles = 1 + std::max(std::min(bits - 2, 5), (bits - 2) / 2);
    return std::expm1(bits * std::log1p(kAdd) + twiddles * std::log1p(kTwiddle)) * (1 + 1e-12);
}

// The plans of this process. Plans up to the length 2^20 are kept, and take 19 MB together. Longer plans are destroyed
// when no caller holds them any more.
struct Plans {
    static constexpr std::size_t kKept = std::size_t{1} << 20;
    std::mutex mutex;
    std::array<std::weak_ptr<const RealFft>, 64> known;
    std::array<std::shared_ptr<const RealFft>, 64> kept;
};

}  // namespace

RealFft::RealFft(std::size_t n) : n_(n) {
    if (!std::has_single_bit(n) || n < kMinLength || n > kMaxLength)
        throw std::invalid_argument("length must be a power of two in [4, 2^30], got " + std::to_string(n));
    kappa_ = bound_fft_rounding(n);
    std::size_t total = 0;
    for (std::size_t m = 2; m <= n; m *= 2) total += 2 * count_fft_roots(n, m);
    roots_ = AlignedArray(total);
    double* next = roots_.data();
    for (std::size_t m = 2; m <= n; m *= 2) {
        const std::size_t count = count_fft_roots(n, m);
        const int level = std::countr_zero(m);
        TIGHTDP_SELECT_SIMD(compute_fft_roots)(m, count, next, next + count);
        tables_.re[level] = next;
        tables_.im[level] = next + count;
        next += 2 * count;
    }
}

std::shared_ptr<const RealFft> RealFft::plan(std::size_t n) {
    if (!std::has_single_bit(n)) return std::make_shared<const RealFft>(n);
    auto& [mutex, known, kept] = PerProcess<Plans>::get();
    const std::lock_guard lock(mutex);
    const auto level = static_cast<std::size_t>(std::countr_zero(n));
    auto plan = known[level].lock();
    if (!plan) {
        plan = std::make_shared<const RealFft>(n);
        known[level] = plan;
        if (n <= Plans::kKept) kept[level] = plan;
    }
    return plan;
}

void RealFft::forward(const double* x, double* spectrum) const noexcept {
    TIGHTDP_SELECT_SIMD(run_forward_fft)(tables_, n_, x, spectrum);
}

void RealFft::inverse(const double* spectrum, double* x) const noexcept {
    TIGHTDP_SELECT_SIMD(run_inverse_fft)(tables_, n_, spectrum, x);
}

void RealFft::multiply(const double* a, const double* b, double* out) const noexcept {
    TIGHTDP_SELECT_SIMD(multiply_spectra)(n_, a, b, out);
}

void RealFft::power(const double* a, std::uint64_t k, double* out) const noexcept {
    const double nothing = std::exp2(-960.0 / static_cast<double>(k));  // |a|^2 < nothing means |a|^k < 2^-480
    TIGHTDP_SELECT_SIMD(raise_spectrum)(n_, a, k, nothing, out);
}

double RealFft::power_bound(std::uint64_t k) noexcept {
    return std::expm1(static_cast<double>(k - 1) * kTimes) * (1 + 1e-12);
}

}  // namespace tightdp
