// Rounds, clips and adds the records of a product sum on a device, one chunk of records after the other (theory:
// docs/theory/exact-products.md, sections 7 and 8). Compile without contraction of a * b + c to fused multiply-adds.
#include "clipping/device/device_table.cuh"
#include "dense_layers/device/product_launch.cuh"
#include "dense_layers/device/record_clip_kernels.cuh"
#include "product_sum.cuda.hpp"

namespace tightdp::cuda {
namespace {

// Returns a number of thread blocks in the type that a launch needs.
unsigned product_sum_launch_blocks(std::int64_t blocks) {
    return static_cast<unsigned>(blocks);
}

// A chunk of records with the inputs and errors of all layers. The class holds device memory for two kinds of results:
// the rounding factors and squares of rows (RowKernels::factors), and the weights of the clipped records.
template <class T>
class LayerChunk {
  public:
    LayerChunk(const ProductSum& r, std::int64_t first, std::int64_t count, cudaStream_t stream)
        : r_(r),
          first_(first),
          count_(count),
          stream_(stream),
          units_(2 * r.layers.size() * static_cast<std::size_t>(count) * 8, stream),
          weights_(static_cast<std::size_t>(count_layer_outputs(r) * count) * 8, stream) {
        double* units = units_.as<double>();
        for (const DenseLayer& layer : r.layers) {
            layers_.push_back({layer.inputs, layer.errors, layer.columns, layer.outputs, units, units + count});
            units += 2 * count;
        }
    }

    // Adds the products of this chunk to the totals of all layers.
    void add_layer_chunk() {
        for (const DeviceLayer& layer : layers_) {
            const std::int64_t blocks = ceiling_quotient(count_, kRowThreads / kRowLanes);
            row_factors_kernel<T><<<product_sum_launch_blocks(blocks), kRowThreads, 0, stream_>>>(
                find_layer_rows(layer), count_, layer.columns, least_device_layer_norm(layer), layer.rounding_factors,
                layer.squares);
        }
        const DeviceTable<DeviceLayer> table(layers_, stream_);
        clip_records_kernel<T>
            <<<product_sum_launch_blocks(ceiling_quotient(count_, kClipThreads)), kClipThreads, 0, stream_>>>(
                make_record_clip(r_, table.device_table_entries(), first_, count_, weights_.as<double>()));
        check_cuda(cudaGetLastError(), "the launch of a product sum");
        double* w = weights_.as<double>();
        for (std::size_t l = 0; l < layers_.size(); ++l) {
            add_layer_product_sum(layers_[l], w, r_.totals[l]);
            w += layers_[l].outputs * count_;
        }
    }

  private:
    const T* find_layer_rows(const DeviceLayer& layer) const {
        return static_cast<const T*>(layer.inputs) + first_ * layer.columns;
    }

    void add_layer_product_sum(const DeviceLayer& layer, const double* w, std::int64_t* total) {
        if (layer.outputs == 0 || layer.columns == 0) return;
        if (!layer.is_formed_device_layer())
            return launch_device_product(
                ClippedWeights{w, count_, layer.outputs},
                RoundedRows<T>{find_layer_rows(layer), count_, layer.columns, layer.rounding_factors}, total, stream_);
        const WeightedRows<T> weighted =
            share_weighted_device_layer_rows(find_layer_rows(layer), count_, layer, w, total, processors_);
        add_rows_kernel<T>
            <<<product_sum_launch_blocks(weighted.count_launch_blocks()), kRowThreads, 0, stream_>>>(weighted);
        check_cuda(cudaGetLastError(), "the launch of a sum of rows");
    }

    const ProductSum& r_;
    const std::int64_t first_, count_;
    cudaStream_t stream_;
    const std::int64_t processors_ = cuda_attribute(cudaDevAttrMultiProcessorCount);
    const Scratch units_, weights_;
    std::vector<DeviceLayer> layers_;
};

}  // namespace

template <class T>
void add_products(const ProductSum& r, cudaStream_t stream) {
    const std::int64_t chunk = choose_device_product_sum_chunk(r, kDevicePackedBytes);
    for (std::int64_t first = 0; first < r.rows; first += chunk)
        LayerChunk<T>(r, first, std::min(chunk, r.rows - first), stream).add_layer_chunk();
}

template void add_products<float>(const ProductSum&, cudaStream_t);
template void add_products<double>(const ProductSum&, cudaStream_t);

}  // namespace tightdp::cuda
