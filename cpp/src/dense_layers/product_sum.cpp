// Adds clipped gradients to running totals on several threads (product_sum.hpp). Each thread adds one piece of a layer
// after another. Weights and inputs are integers that are packed for the instructions in use (product_way.hpp).
#include "product_sum.hpp"

#include <algorithm>
#include <atomic>

#include "clipping/clip_tile.hpp"
#include "layer_workers.hpp"
#include "product_way.hpp"
#include "random/rounded_normal.hpp"
#include "runtime/aligned.hpp"

namespace tightdp {
namespace {

// A piece of a layer is a range of its outputs and a range of its columns. A thread computes the sums of one piece at a
// time. A piece has at most kSumsHeld sums, which take at most 512 KB. So they stay in the second-level cache from the
// first record until the noise is added. A piece has at most kStripColumns columns and kStripOutputs outputs. In a
// layer with one output, a piece has at most kRowStrip columns instead.
constexpr std::int64_t kSumsHeld = 1 << 16, kStripColumns = 1 << 12, kStripOutputs = 32, kRowStrip = 1 << 14;
// Size in bytes of the packed weights and inputs (product_way.hpp) of one chunk. A chunk is a range of records that are
// packed and added together. A product sum without running totals packs all records as one chunk.
constexpr std::int64_t kPackedBytes = 1 << 25;

// Calls body(worker, i) for i = 0, 1, ..., pieces - 1. Each thread takes the next piece when it is free.
template <class Body>
void take_product_pieces(int wanted, std::int64_t pieces, const Body& body) {
    std::atomic<std::int64_t> next{0};
    parallel(wanted, [&](int worker, int) {
        for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) body(worker, i);
    });
}

constexpr std::int64_t round_up_to_product_blocks(std::int64_t records) {
    return (records + kDenseBlock - 1) / kDenseBlock * kDenseBlock;
}

// An uninitialised array of bytes that starts on a cache line.
class Bytes {
  public:
    explicit Bytes(std::int64_t size) : held_(static_cast<std::size_t>((size + 7) / 8)) {}
    std::uint8_t* data() noexcept { return reinterpret_cast<std::uint8_t*>(held_.data()); }

  private:
    AlignedArray held_;
};

template <class T>
class Adder {
  public:
    explicit Adder(const ProductSum& r) : r_(r), limit_(way_.limit_product_records(r.bound)) {
        double work = 0;
        std::int64_t block_bytes = 1, held = 0;
        for (std::size_t l = 0; l < r.layers.size(); ++l) {
            const DenseLayer& layer = r.layers[l];
            outputs_ += layer.outputs;
            work += static_cast<double>(layer.columns + 8) * static_cast<double>(layer.outputs);
            if (layer.outputs > 1)
                block_bytes += way_.packed_weights_size(layer.outputs, kDenseBlock) +
                               way_.packed_inputs_size(layer.columns, kDenseBlock);
            held = std::max(held, cut_layer(l));
        }
        // The sums that are compared with the bound have at most one rounding for each term, and a few further
        // roundings. Each rounding is at most 2^-53 of the sum.
        slack_ = (static_cast<double>(outputs_) + static_cast<double>(r.layers.size()) + 16) * 0x1p-52;
        workers_ = choose_layer_workers(work * static_cast<double>(r.rows));
        const std::int64_t least = std::max<std::int64_t>(1, kPackedBytes / block_bytes) * kDenseBlock;
        chunk_ = r.totals.empty() ? std::max(kDenseBlock, round_up_to_product_blocks(r.rows))
                                  : std::min(least, round_up_to_product_blocks(r.rows));
        chunk_ = std::min(chunk_, kRowRecords);
        for (const DenseLayer& layer : r.layers) {
            const bool product = layer.outputs > 1;
            weights_.emplace_back(product ? way_.packed_weights_size(layer.outputs, chunk_) : 0);
            inputs_.emplace_back(product ? way_.packed_inputs_size(layer.columns, chunk_) : 0);
        }
        clipped_.resize(static_cast<std::size_t>(workers_ * outputs_ * kDenseBlock));
        row_weights_.resize(r.layers.size() * static_cast<std::size_t>(chunk_));
        if (r.release) sums_.resize(static_cast<std::size_t>(workers_ * held));
        held_ = held;
    }

    void add_layer_products() {
        std::int64_t first = 0;
        do {
            const std::int64_t count = std::min(chunk_, r_.rows - first),
                               blocks = round_up_to_product_blocks(count) / kDenseBlock;
            take_product_pieces(workers_, blocks, [&](int worker, std::int64_t block) {
                pack_layer_block(worker, first, block * kDenseBlock, count);
            });
            take_product_pieces(workers_, static_cast<std::int64_t>(pieces_.size()),
                                [&](int worker, std::int64_t piece) {
                                    add_layer_piece(pieces_[static_cast<std::size_t>(piece)], worker, first, count);
                                });
            first += count;
        } while (first < r_.rows);
    }

  private:
    // A piece of a layer: the ranges [column, column + columns) and [output, output + outputs).
    struct Piece {
        std::size_t layer;
        std::int64_t column, columns, output, outputs;
    };

    // Cuts layer l into pieces, and returns the number of sums in the largest piece.
    std::int64_t cut_layer(std::size_t l) {
        const DenseLayer& layer = r_.layers[l];
        const std::int64_t columns = std::min(layer.columns, layer.outputs > 1 ? kStripColumns : kRowStrip);
        const std::int64_t tiles = kSumsHeld / std::max<std::int64_t>(columns, 1) / way_.tile_outputs;
        const std::int64_t outputs = std::clamp(tiles * way_.tile_outputs, way_.tile_outputs, kStripOutputs);
        for (std::int64_t o = 0; o < layer.outputs; o += outputs)
            for (std::int64_t j = 0; j < layer.columns; j += columns)
                pieces_.push_back(
                    {l, j, std::min(columns, layer.columns - j), o, std::min(outputs, layer.outputs - o)});
        return std::min(outputs, layer.outputs) * columns;
    }

    // Packs the integers w and q (product_sum.hpp) of one block of records. The block starts `at` records into the
    // current chunk, which has `count` records and starts at record `first`.
    void pack_layer_block(int worker, std::int64_t first, std::int64_t at, std::int64_t count) {
        const std::int64_t here = std::min(kDenseBlock, count - at);
        double* w = clipped_.data() + worker * outputs_ * kDenseBlock;
        clip_.clip_plain({r_.layers.data(), static_cast<std::int64_t>(r_.layers.size()), first + at, here, r_.bound,
                          r_.bounds, r_.inverse_grid, slack_, false, r_.taken, nullptr, w, nullptr, nullptr, nullptr,
                          0});
        for (std::size_t l = 0; l < r_.layers.size(); ++l) {
            const DenseLayer& layer = r_.layers[l];
            if (layer.outputs > 1) {
                const T* const x = static_cast<const T*>(layer.inputs) + (first + at) * layer.columns;
                LargestInputs largest;
                way_.pack_inputs(
                    InputBlock<T>{x, layer.columns, here, layer.columns, layer.rounding_factors + first + at},
                    {inputs_[l].data(), at, count_packed_records(count)}, largest);
                way_.pack_weights(w, layer.outputs, largest, {weights_[l].data(), at, count_packed_records(count)});
            } else if (layer.outputs == 1) {
                std::copy_n(w, kDenseBlock, row_weights_.data() + static_cast<std::int64_t>(l) * chunk_ + at);
            }
            w += layer.outputs * kDenseBlock;
        }
    }

    // Returns the number of packed records of a chunk of `count` records. The last block is filled up with zeros.
    static std::int64_t count_packed_records(std::int64_t count) { return round_up_to_product_blocks(count); }

    void add_layer_piece(const Piece& p, int worker, std::int64_t first, std::int64_t count) {
        const DenseLayer& layer = r_.layers[p.layer];
        const std::int64_t begin = p.output * layer.columns + p.column;
        std::int64_t* const total = r_.totals.empty() ? nullptr : r_.totals[p.layer] + begin;
        const bool last = r_.release && first + count == r_.rows;
        // The chunks before the last chunk of a release add to the totals themselves. The last chunk adds to a copy of
        // the totals, and the copy is released.
        std::int64_t* const sums = last ? sums_.data() + worker * held_ : total;
        const std::int64_t stride = last ? p.columns : layer.columns;
        const bool fresh = first == 0 && !total;
        for (std::int64_t o = 0; o < p.outputs; ++o)
            if (fresh)
                std::fill_n(sums + o * stride, p.columns, 0);
            else if (last)
                std::copy_n(total + o * layer.columns, p.columns, sums + o * stride);
        if (layer.outputs > 1)
            way_.add({weights_[p.layer].data() + way_.packed_weights_size(p.output, count_packed_records(count)),
                      inputs_[p.layer].data() + way_.packed_inputs_size(p.column, count_packed_records(count)),
                      count_packed_records(count), limit_, p.outputs, p.columns, sums, stride});
        else
            rows_.add({static_cast<const T*>(layer.inputs) + first * layer.columns + p.column, layer.columns, count,
                       p.columns, layer.rounding_factors + first,
                       row_weights_.data() + static_cast<std::int64_t>(p.layer) * chunk_, sums});
        if (!last) return;
        if (p.columns == layer.columns)
            release_product_sums(p.layer, begin, sums, p.outputs * p.columns);
        else
            for (std::int64_t o = 0; o < p.outputs; ++o)
                release_product_sums(p.layer, begin + o * layer.columns, sums + o * stride, p.columns);
        // Released totals become zero, so that no record is released twice for one charge.
        for (std::int64_t o = 0; total && o < p.outputs; ++o) std::fill_n(total + o * layer.columns, p.columns, 0);
    }

    // Adds the noise to the sums of `count` entries of a layer, from entry `begin` on. Writes the results in float64 or
    // float32, as the release asks.
    void release_product_sums(std::size_t layer, std::int64_t begin, std::int64_t* sums, std::int64_t count) const {
        const SumRelease& to = *r_.release;
        if (to.stream)
            add_rounded_normals_range(*to.stream, {&to.deviation, false},
                                      to.first[layer] + static_cast<std::uint64_t>(begin),
                                      static_cast<std::size_t>(count), sums);
        if (to.full)
            finish_.full_of_integers(static_cast<double*>(to.out[layer]) + begin, sums, to.scale, count);
        else
            finish_.single_of_integers(static_cast<float*>(to.out[layer]) + begin, sums, to.scale, count);
    }

    const ProductSum& r_;
    const ProductWay& way_ = serving_product_way();
    const RowSum<T> rows_ = TIGHTDP_SELECT_SIMD(layer_row_sum)().template of<T>();
    const DenseClipKernels<T> clip_ = TIGHTDP_SELECT_SIMD(layer_clip_kernels)().template of<T>();
    const FinishKernels finish_ = TIGHTDP_SELECT_SIMD(clip_finish_kernels)();
    const std::int64_t limit_;
    int workers_ = 1;
    std::int64_t outputs_ = 0, chunk_ = 0, held_ = 0;
    double slack_ = 0;
    std::vector<Piece> pieces_;
    std::vector<Bytes> weights_, inputs_;  // packed operands, for each layer
    std::vector<double> clipped_, row_weights_;
    std::vector<std::int64_t> sums_;
};

}  // namespace

template <class T>
void add_products(const ProductSum& request) {
    Adder<T>(request).add_layer_products();
}

template void add_products<float>(const ProductSum&);
template void add_products<double>(const ProductSum&);

void add_integer_product(const IntegerProduct& p) {
    const ProductWay& way = serving_product_way();
    const std::int64_t limit = way.limit_product_records(p.largest_product),
                       block_bytes = 1 + way.packed_weights_size(p.outputs, kDenseBlock) +
                                     way.packed_inputs_size(p.columns, kDenseBlock);
    const std::int64_t most = std::max<std::int64_t>(1, kPackedBytes / block_bytes) * kDenseBlock;
    const std::int64_t chunk = std::min(most, round_up_to_product_blocks(p.rows));
    Bytes weights(way.packed_weights_size(p.outputs, chunk)), inputs(way.packed_inputs_size(p.columns, chunk));
    const int workers = choose_layer_workers(static_cast<double>(p.outputs) * static_cast<double>(p.columns) *
                                             static_cast<double>(p.rows));
    for (std::int64_t first = 0; first < p.rows; first += chunk) {
        const std::int64_t count = round_up_to_product_blocks(std::min(chunk, p.rows - first));
        take_product_pieces(workers, count / kDenseBlock, [&](int, std::int64_t block) {
            const std::int64_t at = block * kDenseBlock, here = std::min(kDenseBlock, p.rows - first - at);
            LargestInputs largest;
            way.pack_inputs(
                InputBlock<std::int16_t>{p.q + (first + at) * p.columns, p.columns, here, p.columns, nullptr},
                {inputs.data(), at, count}, largest);
            way.pack_weight_rows({p.w + (first + at) * p.outputs, here, p.outputs}, largest,
                                 {weights.data(), at, count});
        });
        take_product_pieces(workers, (p.outputs + kStripOutputs - 1) / kStripOutputs, [&](int, std::int64_t piece) {
            const std::int64_t o = piece * kStripOutputs;
            way.add({weights.data() + way.packed_weights_size(o, count), inputs.data(), count, limit,
                     std::min(kStripOutputs, p.outputs - o), p.columns, p.sums + o * p.columns, p.columns});
        });
    }
}

}  // namespace tightdp
