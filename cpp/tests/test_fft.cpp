// Tests fft/real_fft.hpp against the definition of the transform in long double.
#include <complex>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "fft/real_fft.hpp"

using tightdp::RealFft;
using Wide = std::complex<long double>;

namespace {

std::vector<double> sequence(std::size_t n) {
    std::mt19937_64 random(n);
    std::normal_distribution<double> normal;
    std::vector<double> x(n);
    for (double& v : x) v = normal(random);
    return x;
}

Wide coefficient(const std::vector<double>& x, std::size_t f) {
    const long double turn = -2 * 3.14159265358979323846264338327950288L;
    Wide sum = 0;
    for (std::size_t j = 0; j < x.size(); ++j)
        sum += Wide(x[j]) * std::polar(1.0L, turn * static_cast<long double>(f * j % x.size()) / x.size());
    return sum;
}

double norm(const std::vector<double>& x) {
    double sum = 0;
    for (double v : x) sum += v * v;
    return std::sqrt(sum);
}

void definition(std::size_t n) {
    const RealFft fft(n);
    const auto x = sequence(n);
    std::vector<double> spectrum(n), roots(n, 0.0);
    fft.forward(x.data(), spectrum.data());
    // A spectrum does not store its coefficients in the order of the frequency f (fft/real_fft.hpp). The loop finds f
    // by the transform of the unit impulse at index 1, whose coefficient at f is e^{-2 pi i f / n}.
    roots[1] = 1;
    fft.forward(roots.data(), roots.data());
    double sum = 0;
    for (double v : x) sum += std::fabs(v);
    for (std::size_t m = 4; m <= n; m *= 2) {
        for (std::size_t i = m / 2; i < 3 * m / 4; ++i) {
            const double turns = 0.5 + std::atan2(roots[i + m / 4], -roots[i]) / (2 * 3.14159265358979323846);
            const Wide exact = coefficient(x, static_cast<std::size_t>(std::lround(turns * n)) % n);
            const Wide computed(spectrum[i], spectrum[i + m / 4]);
            CHECK(std::abs(computed - exact) <= fft.rounding_bound() * sum);
        }
    }
    for (std::size_t i : {0, 1}) {
        const double exact = static_cast<double>(coefficient(x, i * (n / 2)).real());
        CHECK(std::fabs(spectrum[i] - exact) <= fft.rounding_bound() * sum);
    }
}

void round_trip(std::size_t n) {
    const auto fft = RealFft::plan(n);
    const auto x = sequence(n);
    std::vector<double> y(n);
    fft->forward(x.data(), y.data());
    fft->inverse(y.data(), y.data());  // overwrites its input
    for (std::size_t i = 0; i < n; ++i) y[i] -= x[i];
    CHECK(norm(y) <= 2.1 * fft->rounding_bound() * norm(x));
}

void powers() {
    const std::size_t n = 256;
    const auto fft = RealFft::plan(n);
    std::vector<double> p(n, 0.0), product(n), power(n);
    p[0] = 0.5, p[1] = 0.25, p[255] = 0.25;
    fft->forward(p.data(), p.data());
    product = p;
    for (int k = 2; k <= 9; ++k) {
        fft->multiply(product.data(), p.data(), product.data());
        fft->power(p.data(), static_cast<std::uint64_t>(k), power.data());
        for (std::size_t i = 0; i < n; ++i) CHECK(std::fabs(power[i] - product[i]) <= 2 * RealFft::power_bound(9));
    }
    // p is the distribution of the number of heads in two coin flips, minus 1. So the ninth power is the distribution
    // of the number of heads in 18 coin flips, minus 9.
    fft->inverse(product.data(), product.data());
    CHECK(check::near(product[0], 48620.0 / 262144, 1e-13));
    CHECK(check::near(product[9], 1.0 / 262144, 1e-9));
}

void refused(std::size_t n) {
    bool thrown = false;
    try {
        RealFft fft(n);
    } catch (const std::invalid_argument&) {
        thrown = true;
    }
    CHECK(thrown);
}

}  // namespace

int main() {
    for (std::size_t n = 4; n <= 512; n *= 2) definition(n);
    for (std::size_t n = 4; n <= (1 << 20); n *= 4) round_trip(n);
    powers();
    for (std::size_t n : {0, 1, 2, 3, 12, 1000}) refused(n);
    CHECK(RealFft::plan(64) == RealFft::plan(64));
    return check::failures;
}
