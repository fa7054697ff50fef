#include "product_sum.hpp"

#include <algorithm>
#include <atomic>

#include "workers.hpp"

namespace tightdp {
namespace {

// What a thread takes at a time. The integers of 256 records by 128 columns are 64 KB, and the parts of their weights
// for 512 outputs 512 KB: half of a second-level cache.
constexpr std::int64_t kStripColumns = 128, kStripOutputs = 512;
constexpr std::int64_t kRowStrip = 1 << 14;

// Pieces 0, 1, ... of work, which threads take as they come free.
template <class Body>
void in_turn(int wanted, std::int64_t pieces, const Body& body) {
    std::atomic<std::int64_t> next{0};
    parallel(wanted, [&](int worker, int) {
        for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) body(worker, i);
    });
}

template <class T>
class Adder {
  public:
    explicit Adder(const ProductSum& r) : r_(r) {
        double work = 0;
        std::int64_t parts = 0;
        for (std::size_t l = 0; l < r.layers.size(); ++l) {
            const DenseLayer& layer = r.layers[l];
            parts_at_.push_back(parts);
            const std::int64_t tiles = (layer.outputs + kProductOutputs - 1) / kProductOutputs;
            if (layer.outputs > 1) parts += tiles * kProductOutputs * 2 * kProductRecords;
            outputs_ += layer.outputs;
            work += static_cast<double>(layer.columns + 8) * static_cast<double>(layer.outputs);
            cut(l);
        }
        // A rounding for each term of the sums that are compared, at most, and some more; each at most 2^-53.
        slack_ = (static_cast<double>(outputs_) + static_cast<double>(r.layers.size()) + 16) * 0x1p-52;
        workers_ = workers_for(work * static_cast<double>(r.rows));
        weighers_ = std::min<int>(workers_, kProductRecords / kDenseBlock);
        weights_.resize(static_cast<std::size_t>(weighers_ * outputs_ * kDenseBlock));
        pairs_.resize(static_cast<std::size_t>(workers_) * kStripColumns * kProductRecords / 2);
        parts_.resize(static_cast<std::size_t>(parts));
        row_weights_.resize(r.layers.size() * kProductRecords);
    }

    void run() {
        for (std::int64_t first = 0; first < r_.rows; first += kProductRecords) {
            const std::int64_t count = std::min(kProductRecords, r_.rows - first);
            in_turn(weighers_, (count + kDenseBlock - 1) / kDenseBlock, [&](int worker, std::int64_t block) {
                weigh(worker, first + block * kDenseBlock, std::min(kDenseBlock, count - block * kDenseBlock),
                      block * kDenseBlock);
            });
            in_turn(workers_, static_cast<std::int64_t>(pieces_.size()), [&](int worker, std::int64_t piece) {
                add(pieces_[static_cast<std::size_t>(piece)], worker, first, count);
            });
        }
    }

  private:
    // Some columns of some outputs of a layer.
    struct Piece {
        std::size_t layer;
        std::int64_t column, columns, output, outputs;
    };

    void cut(std::size_t l) {
        const DenseLayer& layer = r_.layers[l];
        const std::int64_t strip = layer.outputs > 1 ? kStripColumns : kRowStrip;
        for (std::int64_t o = 0; o < layer.outputs; o += kStripOutputs)
            for (std::int64_t j = 0; j < layer.columns; j += strip)
                pieces_.push_back(
                    {l, j, std::min(strip, layer.columns - j), o, std::min(kStripOutputs, layer.outputs - o)});
    }

    // The integers w of `count` records, from record `at` of those that are added at once.
    void weigh(int worker, std::int64_t first, std::int64_t count, std::int64_t at) {
        double* w = weights_.data() + worker * outputs_ * kDenseBlock;
        clip_.plain({r_.layers.data(), static_cast<std::int64_t>(r_.layers.size()), first, count, r_.bound,
                     r_.inverse_grid, slack_, false, r_.taken, nullptr, w, nullptr, nullptr, nullptr, 0});
        for (std::size_t l = 0; l < r_.layers.size(); ++l) {
            const std::int64_t outputs = r_.layers[l].outputs;
            if (outputs > 1)
                split_(w, outputs, parts_.data() + parts_at_[l] + at);
            else if (outputs == 1)
                std::copy_n(w, kDenseBlock, row_weights_.data() + static_cast<std::int64_t>(l) * kProductRecords + at);
            w += outputs * kDenseBlock;
        }
    }

    void add(const Piece& p, int worker, std::int64_t first, std::int64_t count) {
        const DenseLayer& layer = r_.layers[p.layer];
        const T* const x = static_cast<const T*>(layer.inputs) + first * layer.columns + p.column;
        std::int64_t* const totals = r_.totals[p.layer] + p.output * layer.columns + p.column;
        const double* const steps = layer.steps + first;
        if (layer.outputs > 1)
            kernels_.add({x, layer.columns, count, p.columns, steps,
                          parts_.data() + parts_at_[p.layer] + 2 * p.output * kProductRecords, p.outputs,
                          pairs_.data() + worker * kStripColumns * kProductRecords / 2, totals, layer.columns});
        else
            kernels_.add_rows({x, layer.columns, count, p.columns, steps,
                               row_weights_.data() + static_cast<std::int64_t>(p.layer) * kProductRecords, totals});
    }

    const ProductSum& r_;
    ProductKernels<T> kernels_ = TIGHTDP_SELECT_SIMD(product_kernels)().template of<T>();
    DenseClipKernels<T> clip_ = TIGHTDP_SELECT_SIMD(dense_clip_kernels)().template of<T>();
    decltype(&baseline::split_weights) split_ = TIGHTDP_SELECT_SIMD(split_weights);
    int workers_ = 1, weighers_ = 1;
    std::int64_t outputs_ = 0;
    double slack_ = 0;
    std::vector<Piece> pieces_;
    std::vector<std::int64_t> parts_at_;
    std::vector<double> weights_, row_weights_;
    std::vector<std::int32_t> pairs_;
    std::vector<std::int16_t> parts_;
};

}  // namespace

template <class T>
void add_products(const ProductSum& request) {
    Adder<T>(request).run();
}

template void add_products<float>(const ProductSum&);
template void add_products<double>(const ProductSum&);

}  // namespace tightdp
