// The loop sum_mgf_phases, which node_sums.hpp declares. Its error constants are derived in docs/theory/contour.md,
// section 5.2. The m-th abscissa is c + i m step, an argument of the moment generating function. The number
// f_m = e^{i m theta} - 1 is called a factor. Here theta is the step of the abscissae times the loss of a node, with
// the sign of the loss changed if `sign` is -1.
#include "node_sums.hpp"
#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// Number of abscissae that sum_first_phases handles. There, each factor is computed from the factor at the abscissa
// before. The partial sums at these abscissae take at most 2 * 64 * kRows bytes, which fit into the first-level cache.
constexpr std::int64_t kRows = 128;

// Returns f + g (1 + f), with a rounding error of a few unit roundoffs times |f|, even if |f| is small.
TIGHTDP_VINLINE Cis next_phase_factor(Cis f, Cis g) {
    return {f.re + ((g.re + f.re * g.re) - f.im * g.im), f.im + ((g.im + f.re * g.im) + f.im * g.re)};
}

// Computes the sums over the nodes of weight times factor, at the abscissae 1 to `rows`.
void sum_first_phases(const double* loss, double sign, const double* weights, std::int64_t n, double step,
                      std::int64_t rows, double* re, double* im) {
    Vec sum_re[kRows], sum_im[kRows];
    for (std::int64_t m = 0; m < rows; ++m) sum_re[m] = sum_im[m] = splat(0.0);
    constexpr int many = 4;
    for (std::int64_t i = 0; i < n; i += many * kLanes) {  // many * kLanes divides kNodeBlock
        Cis f[many], g[many];
        Vec a[many];
        for (int b = 0; b < many; ++b) {
            f[b] = g[b] = vec_cis_minus_one(step * (sign * load(loss + i + b * kLanes)));
            a[b] = load(weights + i + b * kLanes);
        }
        for (std::int64_t m = 0; m < rows; ++m) {
            Vec s_re = sum_re[m], s_im = sum_im[m];
            for (int b = 0; b < many; ++b) {
                s_re += a[b] * f[b].re;
                s_im += a[b] * f[b].im;
                f[b] = next_phase_factor(f[b], g[b]);
            }
            sum_re[m] = s_re;
            sum_im[m] = s_im;
        }
    }
    for (std::int64_t m = 0; m < rows; ++m) {
        re[m] = sum(sum_re[m]);
        im[m] = sum(sum_im[m]);
    }
}

// Each further abscissa is a centre plus or minus an offset of at most kReach. The centres are kSpan apart.
constexpr std::int64_t kReach = 32, kSpan = 2 * kReach + 1;
// Number of centres that are computed at a time. The number of offsets is the same. The two tables of Factors take 32
// kB together, and the table of Sums takes about as much.
constexpr std::int64_t kCentres = kReach;
constexpr std::int64_t kNodes = contour::kNodeBlock;

// Row i holds the products a_i f for node i, where a_i is the weight of the node. Entry l of the row has the factor f
// at the abscissa number first + l spacing, for l < many <= kReach.
struct Factors {
    double re[kNodes][kReach], im[kNodes][kReach];

    static void fill_phase_factors(const double* theta, const double* a, double first, double spacing,
                                   std::int64_t many, Factors& out) {
        double g_re[kNodes], g_im[kNodes];
        for (std::int64_t i = 0; i < kNodes; i += kLanes) {
            const Cis g = vec_cis_minus_one((spacing * kLanes) * load(theta + i));
            store(g_re + i, g.re);
            store(g_im + i, g.im);
        }
        const Vec at = first + spacing * iota();
        for (std::int64_t i = 0; i < kNodes; ++i) {
            const Cis g{splat(g_re[i]), splat(g_im[i])};
            Cis f = vec_cis_minus_one(at * theta[i]);
            for (std::int64_t l = 0; l < many; l += kLanes) {
                store(out.re[i] + l, a[i] * f.re);
                store(out.im[i] + l, a[i] * f.im);
                f = next_phase_factor(f, g);
            }
        }
    }
};

// Sums over the nodes. For each centre c, re and im hold the sum of a f_c, where a is the weight of a node. For each
// centre c and offset j, the other arrays hold the sums of products of three numbers: a, the real or imaginary part of
// f_c, and the real or imaginary part of f_j.
struct Sums {
    double re[kCentres], im[kCentres];
    double re_re[kCentres][kReach], re_im[kCentres][kReach], im_re[kCentres][kReach], im_im[kCentres][kReach];
};

TIGHTDP_VINLINE void add_to_phase_sums(double* sums, Vec x) {
    store(sums, load(sums) + x);
}

void add_phase_products(const Factors& centre, const Factors& offset, std::int64_t centres, Sums& sums) {
    for (std::int64_t c = 0; c < centres; c += kLanes) {
        Vec re{}, im{};
        for (std::int64_t i = 0; i < kNodes; ++i) {
            re += load(centre.re[i] + c);
            im += load(centre.im[i] + c);
        }
        add_to_phase_sums(sums.re + c, re);
        add_to_phase_sums(sums.im + c, im);
    }
    constexpr int many = 2;  // two centres at a time make eight sums, which hide the latency of products
    for (std::int64_t c = 0; c < centres; c += many)
        for (std::int64_t j = 0; j < kReach; j += kLanes) {
            Vec rr[many]{}, ri[many]{}, ir[many]{}, ii[many]{};
            for (std::int64_t i = 0; i < kNodes; ++i) {
                const Vec re = load(offset.re[i] + j), im = load(offset.im[i] + j);
                for (int b = 0; b < many; ++b) {
                    rr[b] += centre.re[i][c + b] * re;
                    ri[b] += centre.re[i][c + b] * im;
                    ir[b] += centre.im[i][c + b] * re;
                    ii[b] += centre.im[i][c + b] * im;
                }
            }
            for (int b = 0; b < many; ++b) {
                add_to_phase_sums(sums.re_re[c + b] + j, rr[b]);
                add_to_phase_sums(sums.re_im[c + b] + j, ri[b]);
                add_to_phase_sums(sums.im_re[c + b] + j, ir[b]);
                add_to_phase_sums(sums.im_im[c + b] + j, ii[b]);
            }
        }
}

// Computes the sums at the further abscissae c + j and c - j for centres c and offsets j. The factors follow from
// f_{c+j} = f_c + f_j + f_c f_j. Since f_{-j} is the conjugate of f_j, the sums of four real products give the results
// for both abscissae.
void sum_further_phases(const double* loss, double sign, const double* weights, std::int64_t n, double step,
                        std::int64_t first, std::int64_t count, double* re, double* im) {
    const std::int64_t left = (count - first) / kSpan + 1, centres = left < kCentres ? left : kCentres;
    const std::int64_t padded = (centres + kLanes - 1) / kLanes * kLanes;
    Factors centre, offset;
    Sums sums{};
    double ones[kNodes], theta[kNodes];
    for (double& one : ones) one = 1;
    for (std::int64_t i = 0; i < n; i += kNodes) {
        for (std::int64_t l = 0; l < kNodes; ++l) theta[l] = step * (sign * loss[i + l]);
        Factors::fill_phase_factors(theta, weights + i, (double)(first + kReach), (double)kSpan, padded, centre);
        Factors::fill_phase_factors(theta, ones, 1, 1, kReach, offset);
        add_phase_products(centre, offset, padded, sums);
    }
    for (std::int64_t k = 0; k < centres; ++k) {
        const std::int64_t c = first + kReach + k * kSpan - 1;  // index of the centre in the array
        const auto set = [&](std::int64_t m, double x, double y) {
            if (m >= count) return;
            re[m] = sums.re[k] + x;
            im[m] = sums.im[k] + y;
        };
        set(c, 0, 0);
        for (std::int64_t j = 0; j < kReach; ++j) {
            const double rr = sums.re_re[k][j], ri = sums.re_im[k][j], ir = sums.im_re[k][j], ii = sums.im_im[k][j];
            set(c + j + 1, re[j] + (rr - ii), im[j] + (ir + ri));
            set(c - j - 1, re[j] + (rr + ii), -im[j] + (ir - ri));
        }
    }
}

}  // namespace

void sum_mgf_phases(const double* loss, double sign, const double* weights, std::int64_t n, double step,
                    std::int64_t count, double* re, double* im) {
    sum_first_phases(loss, sign, weights, n, step, count < kRows ? count : kRows, re, im);
    for (std::int64_t first = kRows + 1; first <= count; first += kCentres * kSpan)
        sum_further_phases(loss, sign, weights, n, step, first, count, re, im);
}

}  // namespace tightdp::TIGHTDP_ISA
