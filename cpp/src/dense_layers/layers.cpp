// Runs the loops of layers.simd.hpp on several threads, and adds up the integers that the threads compute.
#include "layers.hpp"

#include <algorithm>
#include <cmath>

#include "layer_workers.hpp"

namespace tightdp {
namespace {

// Returns the weights in lines, the layout of Affine::weights (layers.simd.hpp). If the last columns of an output do
// not fill a line, they are moved to the end of the output's last line, behind zeros.
template <class T>
std::vector<T> pack_layer_lines(const T* weights, std::int64_t outputs, std::int64_t columns) {
    const std::int64_t lines = (columns + kLine<T> - 1) / kLine<T>, whole = columns / kLine<T>,
                       width = lines * kLine<T>;
    std::vector<T> out(static_cast<std::size_t>(outputs * width), T(0));
    for (std::int64_t o = 0; o < outputs; ++o) {
        const T* const row = weights + o * columns;
        std::copy_n(row, whole * kLine<T>, out.begin() + o * width);
        std::copy(row + whole * kLine<T>, row + columns, out.begin() + (o + 1) * width - (columns - whole * kLine<T>));
    }
    return out;
}

// Number of columns whose inputs, rounded to integers, are held at once. For a block of 64 records these integers take
// 128 KB, half of a small second-level cache.
constexpr std::int64_t kStrip = 256;
// Number of records after which sums in doubles are added to the integer totals. A record adds at most 2^39 to an entry
// of the sums. A double holds the sum of 2^14 records exactly, because 2^14 * 2^39 = 2^53.
constexpr std::int64_t kFlush = std::int64_t{1} << 14;

// The sums over the records of one thread.
template <class T>
class Summer {
  public:
    explicit Summer(const OuterSum& r)
        : r_(r),
          rows_(TIGHTDP_SELECT_SIMD(layer_row_kernels)().of<T>()),
          clip_(TIGHTDP_SELECT_SIMD(layer_clip_kernels)().of<T>()) {
        std::size_t outputs = 0, widths = 0, sums = 0;
        for (const DenseLayer& layer : r.layers) {
            offsets_.push_back(static_cast<std::int64_t>(sums));
            outputs += static_cast<std::size_t>(layer.outputs);
            widths += static_cast<std::size_t>(layer.padded);
            sums += static_cast<std::size_t>(layer.outputs * padded_layer_width(layer));
            size_ += static_cast<std::size_t>(layer.outputs * layer_width(layer));
        }
        // The sums that are compared with the bound have at most one rounding for each term, and a few further
        // roundings. Each rounding is at most 2^-53 of the sum.
        const bool scaled = r.layers.front().center != nullptr;
        slack_ = static_cast<double>((scaled ? size_ : outputs + r.layers.size()) + 16) * 0x1p-52;
        weights_.resize(outputs * kDenseBlock);
        factors_.resize(kDenseBlock);
        norms_.resize(kDenseBlock);
        scratch_.resize(widths);
        if (!r.out) return;
        q_.resize(kDenseBlock * kStrip);
        sums_.resize(sums);
        totals.resize(size_);
    }

    void sum_layer_records(std::int64_t first, std::int64_t rows) {
        DenseClip c{r_.layers.data(),
                    static_cast<std::int64_t>(r_.layers.size()),
                    0,
                    0,
                    r_.bound,
                    nullptr,
                    r_.inverse_grid,
                    slack_,
                    r_.normalize,
                    r_.taken,
                    r_.shares,
                    weights_.data(),
                    r_.norms ? norms_.data() : nullptr,
                    factors_.data(),
                    scratch_.data(),
                    r_.center_norm};
        const bool scaled = r_.layers.front().center != nullptr;
        std::int64_t held = 0;
        for (const std::int64_t end = first + rows; first < end; first += kDenseBlock) {
            c.first = first;
            c.count = std::min(kDenseBlock, end - first);
            scaled ? clip_.clip_scaled(c) : clip_.clip_plain(c);
            if (r_.norms)
                for (std::int64_t k = 0; k < c.count; ++k)
                    r_.norms[first + k] = scaled ? norms_[static_cast<std::size_t>(k)]
                                                 : norms_[static_cast<std::size_t>(k)] / r_.inverse_grid;
            if (!r_.out) continue;
            add_layer_gradients(c, scaled);
            held += kDenseBlock;
            if (held >= kFlush) flush_layer_sums(), held = 0;
        }
        if (r_.out) flush_layer_sums();
    }

    std::vector<std::uint64_t> totals;
    std::uint64_t factor_total = 0;

  private:
    static std::int64_t layer_width(const DenseLayer& layer) noexcept { return layer.columns + layer.bias; }
    static std::int64_t padded_layer_width(const DenseLayer& layer) noexcept {
        return pad_layer_length(layer_width(layer), kSumTile);
    }

    void add_layer_gradients(const DenseClip& c, bool scaled) {
        const double* w = weights_.data();
        for (std::size_t l = 0; l < r_.layers.size(); ++l) {
            add_layer_gradients(r_.layers[l], c, w, sums_.data() + offsets_[l]);
            w += r_.layers[l].outputs * kDenseBlock;
        }
        if (scaled)
            for (const double f : factors_) factor_total += static_cast<std::uint64_t>(f);
    }

    void add_layer_gradients(const DenseLayer& layer, const DenseClip& c, const double* w, double* sums) {
        const T* const x = static_cast<const T*>(layer.inputs) + c.first * layer.columns;
        for (std::int64_t j = 0; j < layer_width(layer); j += kStrip) {
            const std::int64_t here = std::min(layer_width(layer) - j, kStrip), held = pad_layer_length(here, kSumTile);
            const std::int64_t columns = std::clamp(layer.columns - j, std::int64_t{0}, kStrip);
            rows_.quantize({x + j, layer.columns, c.count, columns, here > columns, layer.rounding_factors + c.first,
                            q_.data(), held});
            accumulate_(q_.data(), held, c.count, w, layer.outputs, held, sums + j, padded_layer_width(layer));
        }
    }

    void flush_layer_sums() {
        std::uint64_t* total = totals.data();
        double* sum = sums_.data();
        for (const DenseLayer& layer : r_.layers)
            for (std::int64_t o = 0; o < layer.outputs; ++o, sum += padded_layer_width(layer))
                for (std::int64_t j = 0; j < layer_width(layer); ++j)
                    *total++ += static_cast<std::uint64_t>(static_cast<std::int64_t>(sum[j]));
        std::fill(sums_.begin(), sums_.end(), 0.0);
    }

    const OuterSum& r_;
    RowKernels<T> rows_;
    DenseClipKernels<T> clip_;
    decltype(&baseline::accumulate_layer_gradients) accumulate_ = TIGHTDP_SELECT_SIMD(accumulate_layer_gradients);
    std::size_t size_ = 0;
    double slack_ = 0;
    std::vector<std::int64_t> offsets_;
    std::vector<double> weights_, factors_, norms_, scratch_, q_, sums_;
};

}  // namespace

template <class T>
void affine(const T* inputs, std::int64_t rows, std::int64_t columns, const T* weights, std::int64_t outputs,
            const T* bias, T* scores) {
    const auto kernels = TIGHTDP_SELECT_SIMD(layer_row_kernels)().of<T>();
    const auto lines = columns < kLine<T> ? std::vector<T>(weights, weights + outputs * columns)
                                          : pack_layer_lines(weights, outputs, columns);
    share_layer_rows(
        rows, static_cast<double>(rows) * columns * outputs, 8, [&](std::int64_t first, std::int64_t count) {
            kernels.affine(
                {inputs + first * columns, count, columns, outputs, lines.data(), bias, scores + first * outputs});
        });
}

template <class T>
void row_units(const T* x, std::int64_t rows, std::int64_t columns, bool bias, int digits, double* rounding_factors,
               double* squares) {
    const auto kernels = TIGHTDP_SELECT_SIMD(layer_row_kernels)().of<T>();
    const double least = digits ? std::ldexp(1.0, digits - 1) : 0.0;
    share_layer_rows(rows, static_cast<double>(rows) * columns, 1, [&](std::int64_t first, std::int64_t count) {
        kernels.factors(x + first * columns, count, columns, bias, least, rounding_factors + first, squares + first);
    });
}

template <class T>
void loss_residual(const LossRequest<T>& r, T* out) {
    const auto kernels = TIGHTDP_SELECT_SIMD(layer_loss_kernels)().of<T>();
    share_layer_rows(r.rows, 10.0 * r.rows * r.outputs, 8, [&](std::int64_t first, std::int64_t count) {
        kernels.residual({r.kind, r.width, r.z + first * r.outputs, r.targets + first, count, r.outputs},
                         out + first * r.outputs);
    });
}

template <class T>
void loss_value(const LossRequest<T>& r, double* out) {
    const auto kernels = TIGHTDP_SELECT_SIMD(layer_loss_kernels)().of<T>();
    share_layer_rows(r.rows, 10.0 * r.rows * r.outputs, 8, [&](std::int64_t first, std::int64_t count) {
        kernels.value({r.kind, r.width, r.z + first * r.outputs, r.targets + first, count, r.outputs}, out + first);
    });
}

template <class T>
void tanh_of(const T* x, std::int64_t n, T* out) {
    const auto kernels = TIGHTDP_SELECT_SIMD(layer_loss_kernels)().of<T>();
    share_layer_rows(n, 10.0 * n, 8,
                     [&](std::int64_t first, std::int64_t count) { kernels.tanh(x + first, count, out + first); });
}

template <class T>
void outer_sum(const OuterSum& r) {
    double work = 0;
    for (const DenseLayer& layer : r.layers) work += static_cast<double>(layer.columns + 8) * layer.outputs;
    const int wanted = choose_layer_workers(work * r.rows);
    std::vector<Summer<T>> summers(static_cast<std::size_t>(wanted), Summer<T>(r));
    parallel(wanted, [&](int worker, int workers) {
        const Range mine = share(static_cast<std::size_t>(r.rows), kDenseBlock, worker, workers);
        summers[static_cast<std::size_t>(worker)].sum_layer_records(static_cast<std::int64_t>(mine.begin),
                                                                    static_cast<std::int64_t>(mine.end - mine.begin));
    });
    if (!r.out) return;
    std::vector<std::uint64_t> total = std::move(summers.front().totals);
    std::uint64_t factors = summers.front().factor_total;
    for (std::size_t s = 1; s < summers.size(); ++s) {
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += summers[s].totals[i];
        factors += summers[s].factor_total;
    }
    std::size_t i = 0;
    for (const DenseLayer& layer : r.layers)
        for (std::int64_t o = 0; o < layer.outputs; ++o)
            for (std::int64_t j = 0; j < layer.columns + layer.bias; ++j, ++i) {
                if (layer.center)
                    total[i] -= factors * static_cast<std::uint64_t>(
                                              static_cast<std::int64_t>(layer.center[o * layer.padded + j]));
                r.out[i] = static_cast<std::int64_t>(total[i]);
            }
}

#define TIGHTDP_DENSE_OF(T)                                                                           \
    template void affine(const T*, std::int64_t, std::int64_t, const T*, std::int64_t, const T*, T*); \
    template void row_units(const T*, std::int64_t, std::int64_t, bool, int, double*, double*);       \
    template void loss_residual(const LossRequest<T>&, T*);                                           \
    template void loss_value(const LossRequest<T>&, double*);                                         \
    template void tanh_of(const T*, std::int64_t, T*);                                                \
    template void outer_sum<T>(const OuterSum&);
TIGHTDP_DENSE_OF(float)
TIGHTDP_DENSE_OF(double)

}  // namespace tightdp
