// Kernels for a sum of gradients, where the gradient of a record is an outer product (product_sum.hpp). They round and
// clip the records. One more kernel adds the gradients of layers with one output. The formulas are in clip_record.hpp
// and in docs/theory/exact-products.md, section 7.
#pragma once

#include <cstdint>

#include "clip_record.hpp"
#include "clipping/device/block_memory.cuh"
#include "runtime/warp_team.cuh"

namespace tightdp::cuda {

inline constexpr int kRowThreads = 256, kRowLanes = 16, kClipThreads = 64;

// Computes the rounding factors of `rows` rows, and the sums of the squares of their integers (RowKernels::factors in
// dense_layers/layers.simd.hpp). Sixteen lanes add the squares of one row.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    row_factors_kernel(const T* x, std::int64_t rows, std::int64_t columns, double least, double* rounding_factors,
                       double* squares) {
    const LaneTeam<kRowLanes> team;
    const std::int64_t asked =
        static_cast<std::int64_t>(blockIdx.x) * (kRowThreads / kRowLanes) + threadIdx.x / kRowLanes;
    // Every lane of a warp has to take part. A team of lanes (runtime/warp_team.cuh) that has no row of its own repeats
    // the last row.
    const std::int64_t k = asked < rows ? asked : rows - 1;
    const T* const row = x + k * columns;
    double sum = 0;
    for (std::int64_t j = team.lane(); j < columns; j += kRowLanes)
        sum += static_cast<double>(row[j]) * static_cast<double>(row[j]);
    const double square = team.sum(sum), rounding_factor = device_layer_rounding_factor(square, least);
    double integers = 0;
    if (least > 0 && rounding_factor > 0)
        for (std::int64_t j = team.lane(); j < columns; j += kRowLanes) {
            const double q = nearest_device_layer_integer(static_cast<double>(row[j]) * rounding_factor);
            integers += q * q;
        }
    integers = team.sum(integers);
    if (team.lane() > 0 || asked >= rows) return;
    rounding_factors[k] = rounding_factor;
    const double whole = least > 0 ? integers : square * (1 + 0x1p-24);
    squares[k] = rounding_factor > 0 && !(square < kDeviceLeastSquare) ? whole : 0.0;
}

template <class T>
__global__ void __launch_bounds__(kClipThreads) clip_records_kernel(DeviceClipRecords clip) {
    const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * kClipThreads + threadIdx.x;
    if (k < clip.rows) clip_device_layer_record<T>(clip, k);
}

// Rows that are multiplied by weights, truncated to integers and added. Each thread block takes `share` rows.
template <class T>
struct WeightedRows {
    const T* x;
    std::int64_t rows, columns, share;
    const double *rounding_factors, *weights;
    unsigned long long* totals;

    TIGHTDP_HD std::int64_t count_layer_blocks_across() const { return (columns + kRowThreads - 1) / kRowThreads; }
    TIGHTDP_HD std::int64_t count_launch_blocks() const { return count_layer_blocks_across() * ((rows + share - 1) / share); }
};

// Returns the arguments of add_rows_kernel for `count` rows of a layer. The rows are shared among about eight thread
// blocks for each multiprocessor.
template <class T>
WeightedRows<T> share_weighted_device_layer_rows(const T* x, std::int64_t count, const DeviceLayer& layer,
                                          const double* weights, std::int64_t* totals, std::int64_t processors) {
    WeightedRows<T> r{
        x, count, layer.columns, count, layer.rounding_factors, weights, reinterpret_cast<unsigned long long*>(totals)};
    const std::int64_t parts = std::clamp<std::int64_t>(8 * processors / r.count_layer_blocks_across(), 1, (count + 15) / 16);
    r.share = (count + parts - 1) / parts;
    return r;
}

template <class T>
__global__ void __launch_bounds__(kRowThreads) add_rows_kernel(WeightedRows<T> r) {
    const std::int64_t j = blockIdx.x % r.count_layer_blocks_across() * kRowThreads + threadIdx.x;
    const std::int64_t first = blockIdx.x / r.count_layer_blocks_across() * r.share,
                       end = first + r.share < r.rows ? first + r.share : r.rows;
    if (j >= r.columns) return;
    long long sum = 0;
    for (std::int64_t k = first; k < end; ++k) {
        const double w = r.weights[k];
        if (r.rounding_factors[k] > 0 && w != 0)
            sum += static_cast<long long>(static_cast<double>(r.x[k * r.columns + j]) * w);
    }
    if (sum != 0) atomicAdd(r.totals + j, static_cast<unsigned long long>(sum));
}

}  // namespace tightdp::cuda
