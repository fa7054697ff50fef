// The loops of the transforms of real_fft.hpp. The forward transform decimates in frequency, and the inverse transform
// in time. Neither needs a permutation (docs/theory/fft.md). The numbers w_m^j are the roots of unity of real_fft.hpp.
//
// A level splits a real sequence of length m, in place, into two sequences. The sequence for the even frequencies is
// real and has the length m/2. The sequence for the odd frequencies is complex and has the length m/4, because only one
// frequency of each conjugate pair is kept. Complex sequences go through radix-4 passes, depth first so that
// sub-transforms stay in cache. The last pass consists of radix-8 butterflies along the columns of a transposed block
// of registers.
#include "real_fft.simd.hpp"
#include "simd/complex.hpp"
#include "simd/transpose.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

using std::size_t;

// Largest length of complex sequences that are transformed by scalar code. Longer sequences have at least 64 numbers,
// and fill a block of registers, which holds 8 * kLanes <= 64 numbers.
constexpr size_t kScalar = 32;

inline int fft_level(size_t m) {
    return __builtin_ctzll(m);
}

// --- Butterflies. The forward butterfly is given (a, b, c, d) = (x_j, x_{j+q}, x_{j+2q}, x_{j+3q}). The results, times
// the roots of pass4, are the entries j of four sequences of length q. The transforms of these sequences are the
// coefficients of the frequencies 4k, 4k+2, 4k+1 and 4k-1.

inline void butterfly4(Complex& a, Complex& b, Complex& c, Complex& d) {
    const Complex ac = a + c, bd = b + d, a_c = a - c, ib_d = times_i(b - d);
    a = ac + bd;
    b = ac - bd;
    c = a_c - ib_d;
    d = a_c + ib_d;
}

inline void butterfly4_back(Complex& a, Complex& b, Complex& c, Complex& d) {
    const Complex even = a + b, odd = a - b, sum = c + d, rotated = times_i(c - d);
    a = even + sum;
    c = even - sum;
    b = odd + rotated;
    d = odd - rotated;
}

// Products with eighth roots of unity: z e^{-i pi/4} and z e^{+i pi/4}.
constexpr double kRootHalf = 0x1.6a09e667f3bcdp-1;
inline Complex times_fft_root8(Complex z) {
    return {(z.re + z.im) * kRootHalf, (z.im - z.re) * kRootHalf};
}
inline Complex times_fft_conj_root8(Complex z) {
    return {(z.re - z.im) * kRootHalf, (z.im + z.re) * kRootHalf};
}

inline void butterfly8(Complex (&t)[8]) {
    Complex v[4];
    for (int j = 0; j < 4; ++j) {
        v[j] = t[j] - t[j + 4];
        t[j] = t[j] + t[j + 4];
    }
    t[4] = v[0];
    t[5] = times_fft_root8(v[1]);
    t[6] = {v[2].im, -v[2].re};
    const Complex w = times_fft_conj_root8(v[3]);  // e^{-3 i pi/4} = -e^{i pi/4}
    t[7] = {-w.re, -w.im};
    butterfly4(t[0], t[1], t[2], t[3]);
    butterfly4(t[4], t[5], t[6], t[7]);
}

inline void butterfly8_back(Complex (&t)[8]) {
    butterfly4_back(t[0], t[1], t[2], t[3]);
    butterfly4_back(t[4], t[5], t[6], t[7]);
    const Complex w = times_fft_root8(t[7]);
    const Complex v[4] = {t[4], times_fft_conj_root8(t[5]), times_i(t[6]), {-w.re, -w.im}};
    for (int j = 0; j < 4; ++j) {
        t[j + 4] = t[j] - v[j];
        t[j] = t[j] + v[j];
    }
}

// --- The last passes. A block of registers holds kLanes rows, each of which is a sequence of 8 numbers. If `Sixteen`,
// each pair of rows is a sequence of 16 numbers.

inline void transpose_fft_block(Complex (&t)[8]) {
    for (size_t b = 0; b < 8; b += kLanes) {
        Vec re[kLanes], im[kLanes];
        for (size_t l = 0; l < kLanes; ++l) re[l] = t[b + l].re, im[l] = t[b + l].im;
        transpose(re);
        transpose(im);
        for (size_t l = 0; l < kLanes; ++l) t[b + l] = {re[l], im[l]};
    }
}

// Returns the offset in memory of the vector t[i] of a block t. The vector is in row i % kLanes, and its first column
// is (i / kLanes) * kLanes.
inline size_t fft_block_offset(size_t i) {
    return (i % kLanes) * 8 + (i / kLanes) * kLanes;
}

template <bool Sixteen>
inline void last_pass(const FftTables& w, double* re, double* im) {
    Complex t[8];
    for (size_t i = 0; i < 8; ++i) t[i] = load(re + fft_block_offset(i), im + fft_block_offset(i));
    if constexpr (Sixteen) {
        for (size_t i = 0; i < 8; ++i) {
            if (i % kLanes % 2) continue;
            const size_t column = fft_block_offset(i) % 8;
            const Complex odd = t[i] - t[i + 1];
            t[i] = t[i] + t[i + 1];
            t[i + 1] = times(odd, load(w.re[4] + column, w.im[4] + column));
        }
    }
    transpose_fft_block(t);
    butterfly8(t);
    for (size_t i = 0; i < 8; ++i) store(re + i * kLanes, im + i * kLanes, t[i]);
}

template <bool Sixteen>
inline void first_pass_back(const FftTables& w, double* re, double* im) {
    Complex t[8];
    for (size_t i = 0; i < 8; ++i) t[i] = load(re + i * kLanes, im + i * kLanes);
    butterfly8_back(t);
    transpose_fft_block(t);
    if constexpr (Sixteen) {
        for (size_t i = 0; i < 8; ++i) {
            if (i % kLanes % 2) continue;
            const size_t column = fft_block_offset(i) % 8;
            const Complex odd = times_conj(t[i + 1], load(w.re[4] + column, w.im[4] + column));
            t[i + 1] = t[i] - odd;
            t[i] = t[i] + odd;
        }
    }
    for (size_t i = 0; i < 8; ++i) store(re + fft_block_offset(i), im + fft_block_offset(i), t[i]);
}

// --- Radix-4 passes over a sequence of length m, in the conjugate-pair form, which needs only the roots w^j and w^2j.

inline void pass4(const FftTables& w, double* re, double* im, size_t m) {
    const size_t q = m / 4;
    const int level = fft_level(m);
    const double *c1 = w.re[level], *s1 = w.im[level], *c2 = w.re[level - 1], *s2 = w.im[level - 1];
    for (size_t j = 0; j < q; j += kLanes) {
        double *r = re + j, *i = im + j;
        Complex a = load(r, i), b = load(r + q, i + q), c = load(r + 2 * q, i + 2 * q), d = load(r + 3 * q, i + 3 * q);
        const Complex w1 = load(c1 + j, s1 + j), w2 = load(c2 + j, s2 + j);
        butterfly4(a, b, c, d);
        store(r, i, a);
        store(r + q, i + q, times(b, w2));
        store(r + 2 * q, i + 2 * q, times(c, w1));
        store(r + 3 * q, i + 3 * q, times_conj(d, w1));
    }
}

inline void pass4_back(const FftTables& w, double* re, double* im, size_t m) {
    const size_t q = m / 4;
    const int level = fft_level(m);
    const double *c1 = w.re[level], *s1 = w.im[level], *c2 = w.re[level - 1], *s2 = w.im[level - 1];
    for (size_t j = 0; j < q; j += kLanes) {
        double *r = re + j, *i = im + j;
        const Complex w1 = load(c1 + j, s1 + j), w2 = load(c2 + j, s2 + j);
        Complex a = load(r, i), b = times_conj(load(r + q, i + q), w2);
        Complex c = times_conj(load(r + 2 * q, i + 2 * q), w1), d = times(load(r + 3 * q, i + 3 * q), w1);
        butterfly4_back(a, b, c, d);
        store(r, i, a);
        store(r + q, i + q, b);
        store(r + 2 * q, i + 2 * q, c);
        store(r + 3 * q, i + 3 * q, d);
    }
}

void complex_fft_forward(const FftTables& w, double* re, double* im, size_t m) {
    pass4(w, re, im, m);
    if (m == 64) {
        for (size_t b = 0; b < 64; b += 8 * kLanes) last_pass<true>(w, re + b, im + b);
    } else if (m == 128) {
        for (size_t b = 0; b < 128; b += 32) pass4(w, re + b, im + b, 32);
        for (size_t b = 0; b < 128; b += 8 * kLanes) last_pass<false>(w, re + b, im + b);
    } else {
        for (size_t b = 0; b < m; b += m / 4) complex_fft_forward(w, re + b, im + b, m / 4);
    }
}

void complex_fft_inverse(const FftTables& w, double* re, double* im, size_t m) {
    if (m == 64) {
        for (size_t b = 0; b < 64; b += 8 * kLanes) first_pass_back<true>(w, re + b, im + b);
    } else if (m == 128) {
        for (size_t b = 0; b < 128; b += 8 * kLanes) first_pass_back<false>(w, re + b, im + b);
        for (size_t b = 0; b < 128; b += 32) pass4_back(w, re + b, im + b, 32);
    } else {
        for (size_t b = 0; b < m; b += m / 4) complex_fft_inverse(w, re + b, im + b, m / 4);
    }
    pass4_back(w, re, im, m);
}

// --- Short complex sequences of length m, with real parts at re and imaginary parts at im: scalar code of radix 2.

void short_fft_forward(const FftTables& w, double* re, double* im, size_t m) {
    for (size_t block = m; block > 1; block /= 2) {
        const size_t h = block / 2;
        const double *c = w.re[fft_level(block)], *s = w.im[fft_level(block)];
        for (size_t b = 0; b < m; b += block) {
            for (size_t j = b; j < b + h; ++j) {
                const double dr = re[j] - re[j + h], di = im[j] - im[j + h];
                const double wr = c[j - b], wi = s[j - b];
                re[j] += re[j + h];
                im[j] += im[j + h];
                re[j + h] = dr * wr - di * wi;
                im[j + h] = dr * wi + di * wr;
            }
        }
    }
}

void short_fft_inverse(const FftTables& w, double* re, double* im, size_t m) {
    for (size_t block = 2; block <= m; block *= 2) {
        const size_t h = block / 2;
        const double *c = w.re[fft_level(block)], *s = w.im[fft_level(block)];
        for (size_t b = 0; b < m; b += block) {
            for (size_t j = b; j < b + h; ++j) {
                const double wr = c[j - b], wi = s[j - b];
                const double tr = re[j + h] * wr + im[j + h] * wi, ti = im[j + h] * wr - re[j + h] * wi;
                re[j + h] = re[j] - tr;
                im[j + h] = im[j] - ti;
                re[j] += tr;
                im[j] += ti;
            }
        }
    }
}

// --- Levels of the real sequence. The functions read x and write to out, which may be the same array.

// Calls group(j, real part of w_m^j, imaginary part of w_m^j, load, store) until all j < m/4 are done. If m/4 >=
// kLanes, each call does the numbers j, ..., j + kLanes - 1, in vectors. Otherwise each call does j alone.
template <class Group>
inline void apply_to_fft_groups(const FftTables& w, size_t m, Group group) {
    const double *c = w.re[fft_level(m)], *s = w.im[fft_level(m)];
    if (m / 4 >= kLanes) {
        const auto get = [](const double* p) { return load(p); };
        const auto put = [](double* p, Vec v) { store(p, v); };
        for (size_t j = 0; j < m / 4; j += kLanes) group(j, load(c + j), load(s + j), get, put);
    } else {
        const auto get = [](const double* p) { return *p; };
        const auto put = [](double* p, double v) { *p = v; };
        for (size_t j = 0; j < m / 4; ++j) group(j, c[j], s[j], get, put);
    }
}

// Splits a sequence x of m real numbers. The sums x_j + x_{j+m/2} are the sequence for the even frequencies. Let q =
// m/4 and d_j = x_j - x_{j+m/2}. The products of d_j - i d_{j+q} and w_m^j, for j < q, are the sequence for the odd
// frequencies 1 + 4k.
inline void split_fft_level(const FftTables& w, const double* x, double* out, size_t m) {
    const size_t q = m / 4;
    apply_to_fft_groups(w, m, [&](size_t j, auto wr, auto wi, auto get, auto put) {
        const auto a = get(x + j), b = get(x + j + q), c = get(x + j + 2 * q), d = get(x + j + 3 * q);
        const auto re = a - c, im = d - b;
        put(out + j, a + c);
        put(out + j + q, b + d);
        put(out + j + 2 * q, re * wr - im * wi);
        put(out + j + 3 * q, re * wi + im * wr);
    });
}

// Reverses split_fft_level(), and multiplies the result by `scale`.
inline void join_fft_level(const FftTables& w, const double* x, double* out, size_t m, double scale) {
    const size_t q = m / 4;
    apply_to_fft_groups(w, m, [&](size_t j, auto wr, auto wi, auto get, auto put) {
        const auto re = get(x + j + 2 * q), im = get(x + j + 3 * q);
        const auto dr = 2.0 * (re * wr + im * wi), di = 2.0 * (im * wr - re * wi);
        const auto a = get(x + j), b = get(x + j + q);
        put(out + j, (a + dr) * scale);
        put(out + j + 2 * q, (a - dr) * scale);
        put(out + j + q, (b - di) * scale);
        put(out + j + 3 * q, (b + di) * scale);
    });
}

}  // namespace

void run_forward_fft(const FftTables& w, size_t n, const double* x, double* spectrum) {
    for (size_t m = n; m >= 4; m /= 2, x = spectrum) {
        split_fft_level(w, x, spectrum, m);
        double *re = spectrum + m / 2, *im = re + m / 4;
        if (m / 4 > kScalar)
            complex_fft_forward(w, re, im, m / 4);
        else
            short_fft_forward(w, re, im, m / 4);
    }
    const double even = spectrum[0] + spectrum[1];
    spectrum[1] = spectrum[0] - spectrum[1];
    spectrum[0] = even;
}

void run_inverse_fft(const FftTables& w, size_t n, const double* spectrum, double* x) {
    if (x != spectrum) __builtin_memcpy(x, spectrum, n * sizeof(double));
    const double first = x[0] + x[1];
    x[1] = x[0] - x[1];
    x[0] = first;
    for (size_t m = 4; m <= n; m *= 2) {
        double *re = x + m / 2, *im = re + m / 4;
        if (m / 4 > kScalar)
            complex_fft_inverse(w, re, im, m / 4);
        else
            short_fft_inverse(w, re, im, m / 4);
        join_fft_level(w, x, x, m, m == n ? 1.0 / static_cast<double>(n) : 1.0);
    }
}

}  // namespace tightdp::TIGHTDP_ISA
