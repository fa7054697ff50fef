// The loops over cells and lattice points declared in grid_loops.simd.hpp.
#include "grid_loops.simd.hpp"

#include "simd/math.hpp"

namespace tightdp::TIGHTDP_ISA {

void tilt_grid_cells(double tilt, double shift, const double* x, std::size_t count, const double* s, const double* t,
                     const double* log_scale, const double* rel, double* mass, double* spread, double* error) {
    for (std::size_t i = 0; i < count; i += kLanes) {
        const Vec scale = load(log_scale + i), lean = tilt * load(x + i);
        const Vec exponent = scale + (lean - shift);
        const Vec e = select((Mask)(exponent > 700.0), splat(__builtin_inf()), exp(exponent));
        const Vec ms = load(s + i) * e, mt = load(t + i) * e;
        store(mass + i, ms + mt);
        store(spread + i, mt);
        const double abs_shift = shift < 0 ? -shift : shift;
        store(error + i, load(rel + i) + (2.0 * abs(scale) + 4.0 * abs(lean) + (2.0 * abs_shift + 12.0)) * 0x1p-53);
    }
}

void sum_grid_moments(double tilt, double peak, const double* loss, const double* log_mass, const double* mass,
                      std::size_t count, double* sums) {
    Vec zero{}, first{}, second{}, grown{};
    const Vec n = splat((double)count);
    for (std::size_t i = 0; i < count; i += kLanes) {
        const Vec y = load(loss + i), lean = tilt * y;
        const Mask in = (Mask)((double)i + iota() < n);
        Vec w;
        if (peak == 0) {
            const Vec more = load(mass + i) * expm1(lean);
            w = load(mass + i) + more;
            grown += select(in, more, splat(0.0));
        } else {
            w = exp(load(log_mass + i) + lean - peak);
        }
        w = select(in, w, splat(0.0));
        zero += w;
        first += w * y;
        second += w * y * y;
    }
    sums[0] = sum(zero);
    sums[1] = sum(first);
    sums[2] = sum(second);
    sums[3] = sum(grown);
}

void evaluate_grid_polynomials(const double* w, std::size_t count, bool ascending, std::size_t block,
                               const double* ratio, double* sum, double* octaves) {
    constexpr int kVecs = 8 / kLanes;
    Vec total[kVecs], unit[kVecs], grown[kVecs], by[kVecs];
    for (int v = 0; v < kVecs; ++v) {
        total[v] = grown[v] = splat(0.0);
        unit[v] = splat(1.0);
        by[v] = load(ratio + v * kLanes);
    }
    for (std::size_t from = 0; from < count; from += block) {
        const std::size_t to = from + block < count ? from + block : count;
        for (std::size_t i = from; i < to; ++i) {
            const Vec at = splat(w[ascending ? count - 1 - i : i]);
            for (int v = 0; v < kVecs; ++v) total[v] = total[v] * by[v] + at * unit[v];
        }
        for (int v = 0; v < kVecs; ++v) {
            const Mask large = (Mask)(total[v] > 0x1p500);
            const Vec less = select(large, splat(0x1p-500), splat(1.0));
            total[v] *= less;
            // `unit` is 0 once the true total exceeds 2^1500. Further weights are then negligible.
            unit[v] *= less;
            grown[v] += select(large, splat(500.0), splat(0.0));
        }
    }
    for (int v = 0; v < kVecs; ++v) {
        store(sum + v * kLanes, total[v]);
        store(octaves + v * kLanes, grown[v]);
    }
}

double sum_grid_powers(const double* re, const double* im, std::size_t count, double times, double more,
                       double exponent) {
    const Vec n = splat((double)count);
    Vec total = splat(0.0);
    for (std::size_t i = 0; i < count; i += kLanes) {
        const Mask in = (Mask)((double)i + iota() < n);
        Vec x, y;
        if (i + kLanes <= count) {
            x = load(re + i), y = load(im + i);
        } else {
            x = y = splat(0.0);
            for (std::size_t l = 0; i + l < count; ++l) x[l] = re[i + l], y[l] = im[i + l];
        }
        total += select(in, exp(exponent * log((x * x + y * y) * times + more)), splat(0.0));
    }
    return sum(total);
}

}  // namespace tightdp::TIGHTDP_ISA
